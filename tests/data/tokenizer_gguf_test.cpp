// The tokenizer inside a GGUF file: its lists, its rule for words, SentencePiece's pieces against sentencepiece itself
// (tokenizer_json_values.py), lists that do not fit together.
#include "heddle/data/tokenizer_gguf.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/io/write_gguf.h"
#include "tests/data/sentence_piece_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/packed_blocks.h"

namespace heddle::tests {
namespace {

using test::SentencePieceFile;

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

// The rule is that of the name, and so is what a text begins with.
TEST(GgufTokenizer, CutsAsTheFileNames) {
  test::TinyLlamaFile file;
  file.tokens.insert(file.tokens.begin() + 256, {"12", "123", "1234", "\xC4\xA0the", "\xC4\xA0th"});
  file.merges.insert(file.merges.end(), {"1 2", "12 3", "123 4", "\xC4\xA0 the", "\xC4\xA0 th"});
  file.types.insert(file.types.begin() + 256, 5, 1);
  const auto cut = [&](const char* pre, std::string_view text) {
    file.texts["tokenizer.ggml.pre"] = pre;
    return pieces(*read(file).tokenizer, text);
  };
  using Pieces = std::vector<std::string>;
  EXPECT_EQ(cut("gpt-2", "1234"), (Pieces{"1234"}));
  EXPECT_EQ(cut("smollm", "1234"), (Pieces{"1", "2", "3", "4"}));
  EXPECT_EQ(cut("llama-bpe", "1234"), (Pieces{"123", "4"}));
  EXPECT_EQ(cut("qwen2", "1234"), (Pieces{"1", "2", "3", "4"}));
  EXPECT_EQ(cut("gpt-4o", "1234"), (Pieces{"123", "4"}));
  EXPECT_EQ(cut("tekken", "12"), (Pieces{"1", "2"}));
  EXPECT_EQ(cut("qwen2", "e\u0301"), (Pieces{"\xC3", "\xA9"}));  // composed
  EXPECT_EQ(cut("llama-bpe", " th"), (Pieces{" th"}));           // a whole word
  EXPECT_EQ(cut("llama-bpe", " the"), (Pieces{" the"}));
  file.numbers["tokenizer.ggml.bos_token_id"] = 264;
  file.texts["tokenizer.ggml.pre"] = "llama-bpe";
  EXPECT_TRUE(read(file).begins);
  EXPECT_EQ(read(file).tokenizer->ends().before, (std::vector<int32_t>{264}));
  file.texts["tokenizer.ggml.pre"] = "qwen2";
  EXPECT_FALSE(read(file).begins);
}

TEST(GgufTokenizer, WhatAUserDefinedIsFoundInAnyText) {
  test::TinyLlamaFile file;
  file.types[259] = 4;
  const data::TokenizerPtr tokenizer = read(file).tokenizer;
  EXPECT_EQ(tokenizer->encode("<|begin|><|end|>").front(), 259);
  EXPECT_EQ(tokenizer->encode("<|end|>", data::SpecialTokens::recognised), (std::vector<int32_t>{260}));
  EXPECT_EQ(tokenizer->special(), (std::map<std::string, int32_t>{{"<|end|>", 260}}));
}

// The text between two user-defined tokens gets a space in front, as llama.cpp has it; the library's does not.
TEST(GgufSentencePiece, EncodesAsSentencePieceDoes) {
  const data::TokenizerPtr tokenizer = SentencePieceFile().read().tokenizer;
  size_t compared = 0;
  for (const auto& [text, tokens] :
       SentencePieceFile::stored()["encoded"].get<std::vector<std::pair<std::string, std::vector<int32_t>>>>()) {
    if (text.find("<tool>") != std::string::npos) continue;
    EXPECT_EQ(tokenizer->encode(text), tokens) << nlohmann::json(text).dump();
    EXPECT_EQ(tokenizer->decode(tokens), text);
    ++compared;
  }
  EXPECT_GT(compared, 20u);
  const data::TokenizerPtr back = data::parse_tokenizer(tokenizer->str());
  EXPECT_EQ(back->encode("the loom's heddles"), tokenizer->encode("the loom's heddles"));
  EXPECT_EQ(back->str(), tokenizer->str());
}

TEST(GgufSentencePiece, KnowsWhereTextsBeginAndEnd) {
  SentencePieceFile file;
  const data::GgufTokenizer usual = file.read();
  EXPECT_EQ(usual.begin, 1);
  EXPECT_EQ(usual.end, 2);
  EXPECT_TRUE(usual.begins);
  EXPECT_EQ(usual.tokenizer->special().at("</s>"), 2);
  file.flags = {{"tokenizer.ggml.add_bos_token", false},
                {"tokenizer.ggml.add_eos_token", true},
                {"tokenizer.ggml.add_space_prefix", false}};
  file.numbers = {{"tokenizer.ggml.eos_token_id", 1}};
  const data::GgufTokenizer other = file.read();
  EXPECT_FALSE(other.begins);
  EXPECT_TRUE(other.tokenizer->ends().before.empty());
  EXPECT_EQ(other.tokenizer->ends().after, (std::vector<int32_t>{1}));
  EXPECT_EQ(other.tokenizer->decode(other.tokenizer->encode(" the")), " the");
  EXPECT_EQ(pieces(*usual.tokenizer, "the").front().front(), ' ');
  EXPECT_EQ(pieces(*other.tokenizer, "the").front().front(), 't');
}

TEST(GgufSentencePiece, AnyBytesComeBack) {
  const data::TokenizerPtr tokenizer = SentencePieceFile().read().tokenizer;
  for (const std::string text : {"\xFF\xC0 größer", "the\x80", "\xE2\x96", "\xF0\x9F\x98\x80 x", "\n\t\x01"})
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
}

TEST(GgufSentencePiece, RefusesListsThatDoNotFit) {
  const auto refused = [](auto change, const char* why) {
    SentencePieceFile file;
    change(file);
    expect_error<IoError>([&] { file.read(); }, {"tiny", why});
  };
  refused([](auto& f) { f.scores.pop_back(); }, "tokens have");
  refused([](auto& f) { f.scores[5] = NAN; }, "the score of token 5 is no number");
  refused([](auto& f) { f.types[5] = 7; }, "token 5 is of type 7");
  refused([](auto& f) { f.pieces[5] = "\xFF"; }, "token 5 is no UTF-8");
  refused([](auto& f) { f.pieces[5] = f.pieces[6]; }, "there twice");
  refused([](auto& f) { *std::find(f.pieces.begin(), f.pieces.end(), "<0x41>") = "q?"; }, "no token '<0x41>'");
  refused([](auto& f) { f.flags["tokenizer.ggml.remove_extra_whitespaces"] = true; }, "remove_extra_whitespaces");
  refused([](auto& f) { f.flags["tokenizer.ggml.precompiled_charsmap"] = true; }, "precompiled_charsmap");
  refused([](auto& f) { f.numbers["tokenizer.ggml.bos_token_id"] = 9999; }, "bos_token_id is 9999");
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
  refused([](auto& f) { f.texts["tokenizer.ggml.model"] = "t5"; }, "kind 't5'; read are gpt2");
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

TEST(GgufTokenizer, WhatIsWrittenIsReadAgain) {
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2", "tekken", "gpt-4o"}) {
    test::TinyLlamaFile tiny;
    tiny.texts["tokenizer.ggml.pre"] = pre;
    const auto read = data::tokenizer_of(Gguf::of(FileBytes::of(tiny.bytes()), "tiny"), "tiny");
    GgufWriter writer;
    data::add_tokenizer(writer, *read.tokenizer, 270);
    writer.add("tokenizer.ggml.eos_token_id", uint32_t{260});
    const Gguf written = Gguf::of(FileBytes::of(writer.bytes()), "written");
    EXPECT_EQ(written.at("tokenizer.ggml.pre").as_text(), pre);
    EXPECT_EQ(written.at("tokenizer.ggml.tokens").size(), 270u);
    const auto again = data::tokenizer_of(written, "written");
    for (const char* text : {"the thane's 1234 an", "<|begin|>then 5\n\n the", "TheAn  th"}) {
      for (const auto how : {data::SpecialTokens::as_text, data::SpecialTokens::recognised})
        EXPECT_EQ(again.tokenizer->encode(text, how), read.tokenizer->encode(text, how)) << pre << text;
    }
    EXPECT_EQ(again.tokenizer->ends().before, read.tokenizer->ends().before) << pre;
  }
}

}  // namespace
}  // namespace heddle::tests
