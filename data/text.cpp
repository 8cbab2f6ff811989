#include "heddle/data/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/path.h"
#include "heddle/data/unicode.h"
#include "heddle/io/read_file.h"

namespace heddle::data {
namespace {

std::string read_utf8(const std::string& path) {
  std::string text = read_text_file(path, "text");
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (c.code < 0)
      throw IoError(fmt::format("[text] {}: byte {} (0x{:02X}) is no UTF-8", path, at, static_cast<uint8_t>(text[at])));
    at += c.bytes;
  }
  return text;
}

std::vector<std::string> files_that_end(const std::string& folder, const std::vector<std::string>& endings) {
  std::error_code code;
  std::vector<std::string> files = files_below(folder, code);
  if (code) throw IoError(fmt::format("[text] {}: cannot be read: {}", folder, code.message()));
  std::erase_if(files, [&](const std::string& file) {
    return std::find(endings.begin(), endings.end(), fs::path(file).extension().string()) == endings.end();
  });
  if (files.empty())
    throw IoError(fmt::format("[text] {}: no file in this folder ends with {}", folder, fmt::join(endings, " or ")));
  return files;
}

void check_block(const char* who, const TokenStream& stream, int64_t block) {
  if (block < 1) throw ValueError(fmt::format("[{}] the block is {} tokens, expected at least 1", who, block));
  if (stream.size() <= block)
    throw ValueError(fmt::format("[{}] a block of {} tokens needs {} to predict, but there are {}", who, block,
                                 static_cast<uint64_t>(block) + 1, stream.size()));
}

Sample window(const TokenStream& stream, int64_t at, int64_t block) {
  const auto cut = [&](int64_t from) {
    return Array::of(stream.tokens().subspan(static_cast<size_t>(from), static_cast<size_t>(block)), Shape{block});
  };
  return {cut(at), cut(at + 1)};
}

}  // namespace

std::string read_text(const std::string& path, const std::vector<std::string>& endings) {
  if (!fs::is_directory(path)) return read_utf8(path);
  std::string all;
  for (const std::string& file : files_that_end(path, endings)) {
    if (!all.empty()) all += '\n';
    all += read_utf8(file);
  }
  return all;
}

std::span<const int32_t> TokenStream::tokens() const { return {all->data() + begin, end - begin}; }

TokenStream token_stream(std::vector<int32_t> tokens) {
  const size_t size = tokens.size();
  return {std::make_shared<const std::vector<int32_t>>(std::move(tokens)), 0, size};
}

std::pair<TokenStream, TokenStream> split_stream(const TokenStream& stream, double share) {
  if (!(share >= 0 && share <= 1))
    throw ValueError(fmt::format("[split_stream] the share is {}, expected 0 to 1", share));
  const size_t cut = stream.begin + static_cast<size_t>(share * static_cast<double>(stream.size()));
  return {{stream.all, stream.begin, cut}, {stream.all, cut, stream.end}};
}

TokenStream join_documents(std::span<const std::vector<int32_t>> documents, std::optional<int32_t> separator) {
  std::vector<int32_t> tokens;
  for (const auto& document : documents) {
    tokens.insert(tokens.end(), document.begin(), document.end());
    if (separator) tokens.push_back(*separator);
  }
  return token_stream(std::move(tokens));
}

DatasetPtr windows(const TokenStream& stream, int64_t block, int64_t stride) {
  check_block("windows", stream, block);
  if (stride < 0)
    throw ValueError(fmt::format("[windows] the stride is {} tokens, expected at least 1, or 0 for the block", stride));
  const int64_t step = stride == 0 ? block : stride;
  return generated((stream.size() - block - 1) / step + 1,
                   [=](int64_t index, Random&) { return window(stream, index * step, block); });
}

DatasetPtr random_windows(const TokenStream& stream, int64_t block, int64_t count) {
  check_block("random_windows", stream, block);
  if (count < 0) throw ValueError(fmt::format("[random_windows] {} of them cannot be meant", count));
  return generated(
      count, [=](int64_t, Random& random) { return window(stream, random.integer(stream.size() - block), block); });
}

}  // namespace heddle::data
