// tokenizer.json files: against Hugging Face's tokenizers (tokenizer_json_values.py) for the pipelines of families of
// language models, stored and read again, on any bytes, at sizes where a square would show, and what is refused.
#include <gtest/gtest.h>
#include <zlib.h>

#include <ctime>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/random.h"
#include "heddle/data/tokenizer_file.h"
#include "heddle/data/tokenizers/pipeline.h"
#include "heddle/data/unicode.h"
#include "heddle/data/words.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using data::SpecialTokens;
using data::TokenizerPtr;
using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

const Json& stored() {
  static const Json values = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/tokenizer_json_values.json"));
  return values;
}
std::vector<std::string> texts() { return stored()["texts"]; }
std::vector<std::string> random_texts() { return stored()["random"]; }

std::string file_of(const std::string& family) { return stored()["tokenizers"][family]["file"]; }

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
  const std::vector<std::string> all = texts();
  for (const auto& [name, values] : stored()["words"].items()) {
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
  const Json& values() const { return stored()["tokenizers"][GetParam()]; }
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
  const std::vector<std::string> all = texts();
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
  for (const std::string& text : texts()) {
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

double processor_seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
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
      EXPECT_LT(processor_seconds_since(start), 5) << family << ": " << text.size() << " of '" << text.back() << "'";
    }
  }
}

Json changed(const std::string& family, const std::function<void(Json&)>& change) {
  Json file = Json::parse(file_of(family));
  change(file);
  return file;
}

struct Refusal {
  const char* family;
  std::function<void(Json&)> change;
  const char* why;
};

TEST(TokenizerJsonRefusals, NameWhatIsNotUnderstood) {
  const std::vector<Refusal> refusals = {
      {"llama3", [](Json& f) { f["version"] = "2.0"; }, "version: \"2.0\" is not known"},
      {"llama3", [](Json& f) { f["more"] = 1; }, "more: the key is not known"},
      {"llama3",
       [](Json& f) {
         f["truncation"] = {{"max_length", 5}};
       },
       "truncation: {\"max_length\":5} is not known"},
      {"llama3",
       [](Json& f) {
         f["padding"] = {{"length", 5}};
       },
       "padding: "},
      {"llama3", [](Json& f) { f["model"]["type"] = "WordPiece"; }, "model.type: 'WordPiece' is not known"},
      {"llama3", [](Json& f) { f["model"]["dropout"] = 0.1; }, "model.dropout: 0.1 is not known"},
      {"llama3", [](Json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, "model.end_of_word_suffix: \"</w>\""},
      {"llama3", [](Json& f) { f["model"]["more"] = true; }, "model.more: the key is not known"},
      {"llama3", [](Json& f) { f["model"]["merges"].push_back("a"); }, "model.merges: \"a\" is not two tokens"},
      {"llama3", [](Json& f) { f["model"]["merges"].push_back("a b c"); }, "is not two tokens"},
      {"llama3",
       [](Json& f) {
         f["model"]["merges"].push_back({"a", "qqq"});
       },
       "token 'qqq' is not in the vocabulary"},
      {"llama3",
       [](Json& f) {
         f["model"]["merges"].push_back({"z", "z"});
       },
       "token 'zz' is not in the vocabulary"},
      {"llama3", [](Json& f) { f["model"]["vocab"]["zz"] = 7; }, "is there twice"},
      {"llama3", [](Json& f) { f["model"]["vocab"]["zz"] = -7; }, "expected a token's number"},
      {"llama3", [](Json& f) { f["model"]["vocab"]["zz"] = 16'000'000; }, "far beyond the others"},
      {"llama3", [](Json& f) { f["model"]["vocab"]["x y"] = 500; }, "stands for no bytes"},
      {"llama3", [](Json& f) { f["model"]["vocab"] = 5; }, "model.vocab: expected an object"},
      {"llama3", [](Json& f) { f.erase("model"), f["model"] = nullptr; }, "model: it is missing"},
      {"llama3", [](Json& f) { f["model"]["unk_token"] = "?!"; }, "model.unk_token: token '?!' is not"},
      {"llama3", [](Json& f) { f["model"]["byte_fallback"] = true; }, "byte_fallback: there is no token '<0x00>'"},
      {"llama3", [](Json& f) { f["model"]["fuse_unk"] = "yes"; }, "model.fuse_unk: expected true or false"},
      {"llama3", [](Json& f) { f["added_tokens"][0]["single_word"] = true; }, "added_tokens[0].single_word: true"},
      {"llama3", [](Json& f) { f["added_tokens"][1]["id"] = 3; }, "is there twice"},
      {"llama3", [](Json& f) { f["added_tokens"][1]["content"] = "a"; }, "in the vocabulary"},
      {"llama3", [](Json& f) { f["added_tokens"][1]["content"] = ""; }, "is empty"},
      {"llama3", [](Json& f) { f["added_tokens"] = 1; }, "added_tokens: expected a list"},
      {"llama3",
       [](Json& f) {
         f["normalizer"] = {{"type", "Lowercase"}};
       },
       "normalizer.type: 'Lowercase'"},
      {"gemma",
       [](Json& f) {
         f["normalizer"]["pattern"] = {{"Regex", " +"}};
       },
       "normalizer.pattern: the expression"},
      {"gemma", [](Json& f) { f["normalizer"]["pattern"]["String"] = ""; }, "Replace: its text has 0 bytes"},
      {"gemma", [](Json& f) { f["normalizer"]["content"] = std::string(99, 'x'); }, "Replace: its text has 99 bytes"},
      {"llama3", [](Json& f) { f["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "\\w+|\\d"; },
       "pre_tokenizer.pretokenizers[0].pattern: the expression '\\w+|\\d' is not known"},
      {"llama3", [](Json& f) { f["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed"; }, "'Removed'"},
      {"llama3", [](Json& f) { f["pre_tokenizer"]["pretokenizers"][0]["invert"] = true; }, "invert: true"},
      {"llama3",
       [](Json& f) { std::swap(f["pre_tokenizer"]["pretokenizers"][0], f["pre_tokenizer"]["pretokenizers"][1]); },
       "ByteLevel is not the last stage"},
      {"llama3",
       [](Json& f) {
         f["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
       },
       "'BertPreTokenizer'"},
      {"llama3", [](Json& f) { f["pre_tokenizer"] = nullptr; }, "the decoder does not undo the pre-tokenizer"},
      {"llama3", [](Json& f) { f["decoder"] = nullptr; }, "decoder: it is missing"},
      {"llama3",
       [](Json& f) {
         f["decoder"] = {{"type", "WordPiece"}};
       },
       "decoder.type: 'WordPiece'"},
      {"llama2", [](Json& f) { f["decoder"]["decoders"][3]["start"] = 2; }, "decoder.decoders[3]: of Strip only"},
      {"llama2", [](Json& f) { f["decoder"]["decoders"].erase(2); }, "Strip has no Fuse in front of it"},
      {"llama2", [](Json& f) { std::swap(f["decoder"]["decoders"][0], f["decoder"]["decoders"][1]); }, "another order"},
      {"mistral", [](Json& f) { f["pre_tokenizer"]["prepend_scheme"] = "last"; }, "prepend_scheme: 'last'"},
      {"llama3",
       [](Json& f) {
         f["post_processor"] = {{"type", "RobertaProcessing"}};
       },
       "'RobertaProcessing'"},
      {"llama3", [](Json& f) { f["post_processor"]["single"].erase(1); }, "single: the text is not there"},
      {"llama3", [](Json& f) { f["post_processor"]["single"].push_back(f["post_processor"]["single"][1]); }, "twice"},
      {"llama3", [](Json& f) { f["post_processor"]["special_tokens"] = Json::object(); }, "nor a special token"},
      {"llama3", [](Json& f) { f["post_processor"]["special_tokens"]["<|a|>"]["ids"][0] = 9999; },
       "which there is not"},
      {"unigram", [](Json& f) { f["model"]["vocab"][3] = "x"; }, "\"x\" is not a token and its score"},
      {"unigram", [](Json& f) { f["model"]["vocab"][3][0] = f["model"]["vocab"][4][0]; }, "is there twice"},
      {"unigram", [](Json& f) { f["model"]["unk_id"] = 5000; }, "the unknown token is token 5000"},
  };
  for (const Refusal& refusal : refusals) {
    const std::string text = changed(refusal.family, refusal.change).dump();
    expect_error<IoError>([&] { data::parse_tokenizer(text, "t.json"); }, {"[tokenizer] t.json: ", refusal.why});
  }
}

TEST(TokenizerJsonRefusals, ACharacterWithoutATokenIsNamed) {
  const TokenizerPtr pairs =
      data::parse_tokenizer(changed("unknown_pairs", [](Json& f) { f["model"]["unk_token"] = nullptr; }).dump());
  expect_error<ValueError>([&] { pairs->encode("a漢"); }, {"'漢' (U+6F22)", "no token"});
  const TokenizerPtr unigram =
      data::parse_tokenizer(changed("unigram", [](Json& f) { f["model"]["unk_id"] = nullptr; }).dump());
  expect_error<ValueError>([&] { unigram->encode("漢"); }, {"'漢' (U+6F22)"});
  expect_error<ValueError>([&] { unigram->text_of(-1); }, {"there is no token -1"});
  expect_error<ValueError>([&] { unigram->decode(Tokens{9999}); }, {"there is no token 9999"});
}

TEST(TokenizerFiles, AFolderAndAFileOfHuggingFace) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "tokenizer.json") << file_of("llama2");
  std::ofstream(folder / "vocab.json") << "not looked at";
  const TokenizerPtr plain = data::load_tokenizer(folder.path());
  expect_values(*plain, stored()["tokenizers"]["llama2"]);
  expect_values(*data::load_tokenizer(folder / "tokenizer.json"), stored()["tokenizers"]["llama2"]);
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
