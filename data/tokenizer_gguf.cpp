#include "heddle/data/tokenizer_gguf.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/data/bpe_text.h"

namespace heddle::data {
namespace {

class Reader {
 public:
  Reader(const Gguf& file, const std::string& path) : file_(file), path_(path) {}

  GgufTokenizer run() {
    const std::string_view model = file_.at("tokenizer.ggml.model").as_text();
    if (model != "gpt2")
      fail(fmt::format("the tokenizer is of kind '{}'; read is gpt2 (byte pairs)", shortened(model)));
    detail::BpeLists lists;
    for (const std::string_view name : file_.at("tokenizer.ggml.tokens").texts()) lists.names.emplace_back(name);
    lists.special = special_of(lists.names.size());
    lists.merges = file_.at("tokenizer.ggml.merges").texts();
    GgufTokenizer made;
    made.begin = token("tokenizer.ggml.bos_token_id", lists.names.size());
    made.end = token("tokenizer.ggml.eos_token_id", lists.names.size());
    if (const GgufValue* begins = file_.find("tokenizer.ggml.add_bos_token")) made.begins = begins->as_bool();
    if (made.begins && !made.begin) fail("texts begin with a token, and none is named as tokenizer.ggml.bos_token_id");
    made.tokenizer = detail::bpe_from_lists(std::move(lists), {.words = words(), .every_byte = false}, path_);
    return made;
  }

 private:
  // Types: 1 normal, 2 unknown, 3 control, 4 given by a user, 5 unused, 6 a byte.
  std::vector<bool> special_of(size_t tokens) const {
    const std::vector<double> types = file_.at("tokenizer.ggml.token_type").numbers();
    if (types.size() != tokens) fail(fmt::format("{} tokens have {} types", tokens, types.size()));
    std::vector<bool> special;
    for (const double type : types) special.push_back(type != 1);
    return special;
  }

  WordRule words() const {
    const GgufValue* found = file_.find("tokenizer.ggml.pre");
    const std::string_view pre = found == nullptr ? "gpt-2" : found->as_text();
    if (pre == "gpt-2" || pre == "gpt2") return WordRule::gpt2;
    if (pre == "smollm" || pre == "starcoder" || pre == "refact" || pre == "command-r") return WordRule::digits_apart;
    fail(fmt::format("the tokenizer cuts words by '{}'; read are gpt-2, smollm, starcoder, refact, command-r",
                     shortened(pre)));
  }

  std::optional<int32_t> token(const char* key, size_t tokens) const {
    const GgufValue* found = file_.find(key);
    if (found == nullptr) return {};
    const uint64_t number = found->as_unsigned();
    if (number >= tokens) fail(fmt::format("{} is {}; there are {} tokens", key, number, tokens));
    return static_cast<int32_t>(number);
  }

  [[noreturn]] void fail(const std::string& what) const { throw IoError(fmt::format("[gguf] {}: {}", path_, what)); }

  const Gguf& file_;
  const std::string& path_;
};

}  // namespace

GgufTokenizer tokenizer_of(const Gguf& file, const std::string& path) {
  try {
    return Reader(file, path).run();
  } catch (const ValueError& error) {  // a value of another type
    throw IoError(fmt::format("[gguf] {}: the tokenizer: {}", path, error.what()));
  }
}

}  // namespace heddle::data
