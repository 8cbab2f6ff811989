#include "heddle/data/tokenizer_file.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/data/preprocess.h"
#include "heddle/io/read_file.h"

namespace heddle::data {

TokenizerPtr tokenizer_of(const Metadata& metadata, const std::string& path) {
  if (const auto found = metadata.find("tokenizer"); found != metadata.end())
    return parse_tokenizer(found->second, path);
  if (const auto found = metadata.find("preprocessing"); found != metadata.end()) {
    if (auto tokenizer = Preprocessing::parse(found->second, path).tokenizer) return tokenizer;
  }
  throw IoError(fmt::format("[tokenizer] {}: the file holds no tokenizer; give one with --tokenizer", path));
}

TokenizerPtr load_tokenizer(const std::string& path) {
  if (fs::is_directory(path)) {
    const fs::path folder(path), vocab = folder / "vocab.json", json = folder / "tokenizer.json";
    if (fs::exists(vocab)) return BpeTokenizer::load(vocab.string(), (folder / "merges.txt").string());
    return parse_tokenizer(read_text_file(json.string(), "tokenizer"), json.string());
  }
  if (fs::path(path).extension() == ".safetensors")
    return tokenizer_of(load_safetensors(path, &device("reference:0")).metadata, path);
  return parse_tokenizer(read_text_file(path, "tokenizer"), path);
}

}  // namespace heddle::data
