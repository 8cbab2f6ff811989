// The tokenizer inside a GGUF file: its lists, its rule for words, lists that do not fit together.
#include "heddle/data/tokenizer_gguf.h"

#include <algorithm>

#include "heddle/core/base/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/packed_blocks.h"

namespace heddle::tests {
namespace {

data::GgufTokenizer read(const test::TinyLlamaFile& file) {
  return data::tokenizer_of(Gguf::of(FileBytes::of(file.bytes()), "tiny"), "tiny");
}

std::vector<std::string> pieces(const data::Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> all;
  for (const int32_t token : tokenizer.encode(text)) all.push_back(tokenizer.text_of(token));
  return all;
}

TEST(GgufTokenizer, CutsMergesAndKnowsSpecialTokens) {
  test::TinyLlamaFile file;
  const data::GgufTokenizer found = read(file);
  EXPECT_EQ(found.begin, 259);
  EXPECT_EQ(found.end, 260);
  EXPECT_FALSE(found.begins);
  EXPECT_EQ(found.tokenizer->size(), 261);
  EXPECT_EQ(found.tokenizer->special().at("<|end|>"), 260);
  EXPECT_EQ(pieces(*found.tokenizer, "then an 12"), (std::vector<std::string>{"the", "n", " ", "an", " ", "1", "2"}));
  for (const std::string text : {"the  12\n\n3 a\xFF\xC0 größer", "", "٣٤ half"})
    EXPECT_EQ(found.tokenizer->decode(found.tokenizer->encode(text)), text);
  const data::TokenizerPtr back = data::parse_tokenizer(found.tokenizer->str());
  EXPECT_EQ(back->encode("then 12  3"), found.tokenizer->encode("then 12  3"));
  EXPECT_EQ(back->str(), found.tokenizer->str());
}

TEST(GgufTokenizer, DigitsStandApartWhereTheFileSaysSo) {
  test::TinyLlamaFile file;
  file.tokens.insert(file.tokens.begin() + 256, "12");
  file.merges.emplace_back("1 2");
  file.types.insert(file.types.begin() + 256, 1);
  EXPECT_EQ(pieces(*read(file).tokenizer, "a12"), (std::vector<std::string>{"a", "1", "2"}));
  file.texts["tokenizer.ggml.pre"] = "gpt-2";
  EXPECT_EQ(pieces(*read(file).tokenizer, "a12"), (std::vector<std::string>{"a", "12"}));
}

TEST(GgufTokenizer, BytesWithoutATokenAreRefusedWhenTheyAreMet) {
  test::TinyLlamaFile file;
  const auto at = std::find(file.tokens.begin(), file.tokens.end(), "z");
  *at = "\xC4\xA0the";  // " the"
  file.merges.emplace_back("\xC4\xA0 the");
  const data::TokenizerPtr tokenizer = read(file).tokenizer;
  EXPECT_EQ(pieces(*tokenizer, "a the"), (std::vector<std::string>{"a", " the"}));
  expect_error<ValueError>([&] { tokenizer->encode("fuzz"); }, {"byte 0x7A"});
  EXPECT_EQ(data::parse_tokenizer(tokenizer->str())->encode("a the"), tokenizer->encode("a the"));
}

TEST(GgufTokenizer, RefusesListsThatDoNotFit) {
  const auto refused = [](auto change, const char* why) {
    test::TinyLlamaFile file;
    change(file);
    expect_error<IoError>([&] { read(file); }, {"tiny", why});
  };
  refused([](auto& f) { f.texts["tokenizer.ggml.model"] = "llama"; }, "kind 'llama'; read is gpt2");
  refused([](auto& f) { f.texts["tokenizer.ggml.pre"] = "viking"; }, "cuts words by 'viking'");
  refused([](auto& f) { f.texts.erase("tokenizer.ggml.model"); }, "tokenizer.ggml.model");
  refused([](auto& f) { f.types.pop_back(); }, "261 tokens have 260 types");
  refused([](auto& f) { f.merges.emplace_back("the q"); }, "merge 3");
  refused([](auto& f) { f.merges.emplace_back("the"); }, "not two tokens");
  refused([](auto& f) { f.tokens[5] = f.tokens[6]; }, "there twice");
  refused([](auto& f) { f.tokens[5] = ""; }, "no token");
  refused([](auto& f) { f.tokens[258] = "<|x|>\xF0\x9F\x98\x80", f.merges.pop_back(); }, "stands for no bytes");
  refused([](auto& f) { f.numbers["tokenizer.ggml.eos_token_id"] = 261; }, "there are 261 tokens");
  refused([](auto& f) { f.texts["tokenizer.ggml.bos_token_id"] = "x", f.numbers.erase("tokenizer.ggml.bos_token_id"); },
          "whole number");
}

}  // namespace
}  // namespace heddle::tests
