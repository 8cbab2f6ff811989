// Text as a data set: a stream of tokens, cut into examples of a block's length and the same block one token later.
//
//   const auto stream = data::token_stream(tokenizer->encode(data::read_text(path)));
//   const auto [train, validation] = data::split_stream(stream, 0.9);
//   data::Loader loader(data::random_windows(train, block, steps * batch), data::sequential(steps * batch), {.batch =
//   batch, .seed = seed});   // (B, T) and (B, T), i32
//
// Errors: ValueError for a block that does not fit; IoError for files. Thread safety: immutable.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/data/dataset.h"

namespace heddle::data {

// The file, or every file of the folder (and those below it, by path) whose name ends with one of `endings`, one after
// the other, a line break between two. IoError for bytes that are no UTF-8 (with file and place), and for a folder
// without any.
std::string read_text(const std::string& path, const std::vector<std::string>& endings = {".txt"});

// Tokens, shared by the datasets that read them.
struct TokenStream {
  std::shared_ptr<const std::vector<int32_t>> all;
  size_t begin = 0, end = 0;
  std::span<const int32_t> tokens() const;
  int64_t size() const { return static_cast<int64_t>(end - begin); }
};
TokenStream token_stream(std::vector<int32_t> tokens);
// The first floor(share * size) tokens, and the others. ValueError unless 0 <= share <= 1.
std::pair<TokenStream, TokenStream> split_stream(const TokenStream& stream, double share);
// Documents one after the other, a separator behind each: the usual packing of short texts, in which no position is
// padding.
TokenStream join_documents(std::span<const std::vector<int32_t>> documents, std::optional<int32_t> separator);

// Examples are (tokens (block) i32, the same one later (block) i32).
// Every `stride`-th one; 0: `block`, so that each token is predicted once. What is left at the end is dropped.
DatasetPtr windows(const TokenStream& stream, int64_t block, int64_t stride = 0);
// `count` of them at places drawn by the example's Random, uniformly from all, as nanoGPT's get_batch does.
DatasetPtr random_windows(const TokenStream& stream, int64_t block, int64_t count);

}  // namespace heddle::data
