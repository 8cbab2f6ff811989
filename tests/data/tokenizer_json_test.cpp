// tokenizer.json files: against Hugging Face's tokenizers (tokenizer_json_values.py) for the pipelines of families of
// language models, stored and read again, on any bytes, and at sizes where a square would show.
#include <gtest/gtest.h>
#include <zlib.h>

#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/random.h"
#include "heddle/data/tokenizer_file.h"
#include "heddle/data/tokenizers/pipeline.h"
#include "heddle/data/unicode.h"
#include "heddle/data/words.h"
#include "tests/support/expect_error.h"
#include "tests/support/processor_time.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using data::SpecialTokens;
using data::TokenizerPtr;
using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

const Json& stored_files() {
  static const Json values = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/tokenizer_json_values.json"));
  return values;
}
std::vector<std::string> texts_of_files() { return stored_files()["texts"]; }
std::vector<std::string> random_texts() { return stored_files()["random"]; }

std::string file_of(const std::string& family) { return stored_files()["tokenizers"][family]["file"]; }

// Of ten lists of numbers each.
template <class F>
std::vector<uint32_t> crcs(const std::vector<std::string>& all, const F& numbers_of) {
  std::vector<uint32_t> sums;
  std::string lines;
  for (size_t i = 0; i < all.size(); ++i) {
    std::string line;
    for (const auto number : numbers_of(all[i])) line += (line.empty() ? "" : " ") + std::to_string(number);
    lines += line + "\n";
    if (i % 10 < 9 && i + 1 < all.size()) continue;
    sums.push_back(static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(lines.data()), lines.size())));
    lines.clear();
  }
  return sums;
}

size_t characters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); ++count) at += data::character_at(text, at).bytes;
  return count;
}

std::vector<size_t> word_lengths(std::string_view text, data::WordRule rule) {
  std::vector<size_t> lengths;
  data::for_each_word(text, rule, [&](std::string_view word) { lengths.push_back(characters(word)); });
  return lengths;
}

TEST(WordRules, CutAsTheirExpressionsDo) {
  const std::vector<std::string> all = texts_of_files();
  for (const auto& [name, values] : stored_files()["words"].items()) {
    const auto rule = data::rule_of_pattern(values["pattern"].get<std::string>());
    ASSERT_TRUE(rule.has_value()) << name;
    for (size_t i = 0; i < all.size(); ++i)
      EXPECT_EQ(word_lengths(all[i], *rule), values["lengths"][i].get<std::vector<size_t>>())
          << name << ": " << Json(all[i]).dump();
    EXPECT_EQ(crcs(random_texts(), [&](const std::string& text) { return word_lengths(text, *rule); }),
              values["random"].get<std::vector<uint32_t>>())
        << name;
    EXPECT_EQ(data::rule_of_pattern(data::pattern_of(*rule)), rule);
  }
  EXPECT_FALSE(data::rule_of_pattern("\\w+").has_value());
}

TEST(WordRules, JoinedAreTheTextWhateverItsBytes) {
  data::Random random(1, 0, 0);
  for (int i = 0; i < 300; ++i) {
    std::string text(static_cast<size_t>(random.integer(60)), '\0');
    for (char& c : text) c = static_cast<char>(random.integer(256));
    for (const auto rule :
         {data::WordRule::llama3, data::WordRule::qwen2, data::WordRule::gpt4o, data::WordRule::tekken}) {
      std::string joined;
      data::for_each_word(text, rule, [&](std::string_view word) {
        ASSERT_FALSE(word.empty());
        joined += word;
      });
      EXPECT_EQ(joined, text);
    }
  }
}

class TokenizerJson : public testing::TestWithParam<const char*> {
 protected:
  const Json& values() const { return stored_files()["tokenizers"][GetParam()]; }
  TokenizerPtr tokenizer() const { return data::parse_tokenizer(file_of(GetParam()), GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Families, TokenizerJson,
                         testing::Values("llama3", "qwen2", "smollm2", "byte_level", "llama2", "mistral", "gemma",
                                         "unknown_pairs", "unigram", "unigram_bytes", "few_unigrams"),
                         [](const auto& of) { return std::string(of.param); });

// The library's unigrams take the names of special tokens for pieces like any other.
bool lets_special_tokens_out(const data::Tokenizer& tokenizer, const std::string& text) {
  const auto& pipeline = dynamic_cast<const data::PipelineTokenizer&>(tokenizer).pipeline();
  return std::holds_alternative<data::UnigramModel>(pipeline.model) &&
         (text.find("</s>") != std::string::npos || text.find("<unk>") != std::string::npos);
}

void expect_values(const data::Tokenizer& tokenizer, const Json& values) {
  const std::vector<std::string> all = texts_of_files();
  for (size_t i = 0; i < all.size(); ++i) {
    const Tokens recognised = values["recognised"][i];
    EXPECT_EQ(tokenizer.encode(all[i], SpecialTokens::recognised), recognised) << Json(all[i]).dump();
    const Json& as_text = values["as_text"][i];
    if (!lets_special_tokens_out(tokenizer, all[i]))
      EXPECT_EQ(tokenizer.encode(all[i]), as_text.is_null() ? recognised : as_text.get<Tokens>())
          << Json(all[i]).dump();
    const Json& decoded = values["decoded"][i];
    EXPECT_EQ(tokenizer.decode(recognised), decoded.is_null() ? all[i] : decoded.get<std::string>());
  }
  const auto numbers_of = [&](const std::string& text) { return tokenizer.encode(text, SpecialTokens::recognised); };
  EXPECT_EQ(crcs(random_texts(), numbers_of), values["random"].get<std::vector<uint32_t>>());
}

TEST_P(TokenizerJson, EncodesAndDecodesAsTheLibraryDoes) { expect_values(*tokenizer(), values()); }

TEST_P(TokenizerJson, ComesBackFromWhatARunStores) {
  const TokenizerPtr first = tokenizer(), back = data::parse_tokenizer(first->str());
  expect_values(*back, values());
  EXPECT_EQ(back->str(), first->str());
  EXPECT_EQ(back->special(), first->special());
  EXPECT_EQ(back->size(), first->size());
  const auto& again = dynamic_cast<const data::PipelineTokenizer&>(*first);
  expect_values(*data::parse_tokenizer(again.tokenizer_json()), values());
}

TEST_P(TokenizerJson, KnowsWhatStandsAroundAText) {
  const TokenizerPtr made = tokenizer();
  Tokens framed = made->ends().before;
  for (const int32_t token : made->encode("the loom")) framed.push_back(token);
  framed.insert(framed.end(), made->ends().after.begin(), made->ends().after.end());
  EXPECT_EQ(framed, values()["framed"].get<Tokens>());
  EXPECT_EQ(data::parse_tokenizer(made->str())->ends().before, made->ends().before);
}

// Of the oracle's texts none holds special tokens unless it is asked for.
TEST_P(TokenizerJson, SpecialTokensNeverComeOutOfText) {
  const TokenizerPtr made = tokenizer();
  for (const std::string& text : texts_of_files()) {
    for (const int32_t token : made->encode(text)) {
      const std::string& name = made->text_of(token);
      EXPECT_FALSE(name == "<|a|>" || name == "<|b|>" || name == "<s>" || name == "</s>") << Json(text).dump();
    }
  }
}

// The library takes no such text: bytes are bytes here.
TEST(TokenizerJsonBytes, AnyBytesComeBack) {
  data::Random random(3, 0, 0);
  for (const char* family : {"llama3", "smollm2", "mistral", "gemma"}) {
    const TokenizerPtr made = data::parse_tokenizer(file_of(family));
    for (int i = 0; i < 200; ++i) {
      std::string text = "x";
      for (int64_t n = random.integer(60); n > 0; --n) text += static_cast<char>(random.integer(256));
      EXPECT_EQ(made->decode(made->encode(text)), text) << family;
    }
  }
}

TEST(TokenizerJsonBytes, StreamedTextIsOfWholeCharacters) {
  for (const char* family : {"llama3", "mistral", "llama2"}) {
    const TokenizerPtr made = data::parse_tokenizer(file_of(family));
    const std::string text = "größer 織機 👩\u200d👧 нити";
    data::StreamedText stream(*made);
    std::string shown;
    for (const int32_t token : made->encode(text)) {
      const std::string part = stream.add(token);
      EXPECT_EQ(data::valid_utf8(part), part);
      EXPECT_EQ(part.find("\uFFFD"), std::string::npos);
      shown += part;
    }
    EXPECT_EQ(shown + stream.finish(), text) << family;
    Tokens cut = made->encode("織");
    ASSERT_GT(cut.size(), 1u);
    cut.pop_back();
    data::StreamedText half(*made);
    shown.clear();
    for (const int32_t token : cut) shown += half.add(token);
    EXPECT_EQ(shown.find("\uFFFD"), std::string::npos);
    EXPECT_NE(half.finish().find("\uFFFD"), std::string::npos);
  }
}

TEST(TokenizerJsonSpeed, OneLongWordIsNoSquareOfItsLength) {
  const std::string marks = [] {
    std::string all = "a";
    for (int i = 0; i < 100'000; ++i) all += i % 2 == 0 ? "\u0301" : "\u0323";
    return all;
  }();
  for (const char* family : {"llama3", "qwen2", "gemma", "llama2", "unknown_pairs", "unigram_bytes"}) {
    const TokenizerPtr made = data::parse_tokenizer(file_of(family));
    for (const std::string& text : {std::string(1'000'000, 'a'), std::string(1'000'000, ' '),
                                    std::string(1'000'000, '\n'), std::string(1'000'000, '7'), marks}) {
      const std::clock_t start = std::clock();
      EXPECT_FALSE(made->encode(text, SpecialTokens::recognised).empty());
      EXPECT_LT(test::processor_seconds_since(start), 5)
          << family << ": " << text.size() << " of '" << text.back() << "'";
    }
  }
}

TEST(TokenizerFiles, AFolderAndAFileOfHuggingFace) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "tokenizer.json") << file_of("llama2");
  std::ofstream(folder / "vocab.json") << "not looked at";
  const TokenizerPtr plain = data::load_tokenizer(folder.path());
  expect_values(*plain, stored_files()["tokenizers"]["llama2"]);
  expect_values(*data::load_tokenizer(folder / "tokenizer.json"), stored_files()["tokenizers"]["llama2"]);
  EXPECT_EQ(plain->ends().begin, 1);
  EXPECT_EQ(plain->ends().end, std::nullopt);
  std::ofstream(folder / "tokenizer_config.json") << R"({"bos_token": "<s>", "eos_token": {"content": "</s>"}})";
  const TokenizerPtr named = data::load_tokenizer(folder.path());
  EXPECT_EQ(named->ends().begin, 1);
  EXPECT_EQ(named->ends().end, 2);
  EXPECT_EQ(data::parse_tokenizer(named->str())->ends().end, 2);
  std::ofstream(folder / "tokenizer_config.json") << R"({"eos_token": "<|nothing|>"})";
  expect_error<IoError>([&] { data::load_tokenizer(folder.path()); },
                        {"tokenizer_config.json: eos_token: '<|nothing|>' is no token"});
}

}  // namespace
}  // namespace heddle::tests
