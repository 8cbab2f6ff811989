// SentencePiece's tokenizers of Hugging Face's folders in GGUF files: tokens against sentencepiece itself and against
// the tokenizer.json that was written, in the forms of Llama 2, Mistral and Gemma; what is refused.
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/tokenizers/pipeline.h"
#include "heddle/data/tokenizers/scored_merges.h"
#include "tests/data/sentence_piece_file.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

using data::Pipeline, data::PipelineTokenizer, data::SpecialTokens;
using test::SentencePieceFile;
using Json = nlohmann::json;

const Json& stored_conversions() {
  static const Json values = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/tokenizer_json_values.json"));
  return values;
}

Gguf file_of(const data::Tokenizer& tokenizer, int64_t vocabulary = 0) {
  GgufWriter writer;
  data::add_tokenizer(writer, tokenizer, vocabulary);
  return Gguf::of(FileBytes::of(writer.bytes()), "written");
}
data::TokenizerPtr written(const data::Tokenizer& tokenizer, int64_t vocabulary = 0) {
  return data::tokenizer_of(file_of(tokenizer, vocabulary), "written").tokenizer;
}

// The model's pieces as a tokenizer.json has them, in Llama 2's form: merges instead of scores.
Pipeline llama2() {
  const auto read = SentencePieceFile().read().tokenizer;
  return dynamic_cast<const PipelineTokenizer&>(*read).pipeline();
}
Pipeline mistral() {
  Pipeline p = llama2();
  p.normalisers.clear();
  p.cuts = {data::CutSpaces{.mark = "\u2581", .in_front = data::MarkInFront::first, .cut = false}};
  return p;
}
// Without a space in front; a run of three spaces is a token of its own.
Pipeline gemma() {
  Pipeline p = llama2();
  p.normalisers = {data::Replace{" ", "\u2581"}};
  p.cuts = {data::CutAt{" ", data::Found::with_previous}};
  p.decoding.pop_back();
  std::get<data::PairModel>(p.model).joins_unknown = true;
  p.added.push_back({.text = "\u2581\u2581\u2581", .token = static_cast<int32_t>(p.names.size())});
  p.names.emplace_back("\u2581\u2581\u2581");
  return p;
}

std::vector<std::string> texts() {
  std::vector<std::string> all = stored_conversions()["texts"];
  const std::vector<std::string> drawn = stored_conversions()["random"];
  all.insert(all.end(), drawn.begin(), drawn.end());
  all.insert(all.end(), {"\xFF\xC0 gr\xC3\xB6\xC3\x9F"
                         "er",
                         "the\x80", "\xE2\x96", "\xF0\x9F\x98\x80 x", "<s>the</s>"});
  return all;
}

// Of how many of the texts.
template <class Wanted>
size_t expect_equal(const data::Tokenizer& found, const data::Tokenizer& wanted, const Wanted& is_wanted) {
  size_t compared = 0;
  for (const std::string& text : texts()) {
    if (!is_wanted(text)) continue;
    for (const auto how : {SpecialTokens::as_text, SpecialTokens::recognised})
      EXPECT_EQ(found.encode(text, how), wanted.encode(text, how)) << text;
    EXPECT_EQ(found.decode(found.encode(text)), wanted.decode(wanted.encode(text))) << text;
    ++compared;
  }
  return compared;
}

TEST(WriteGgufSentencePiece, TokensAreThoseOfSentencePiece) {
  const Gguf file = file_of(*data::parse_tokenizer(PipelineTokenizer(llama2()).tokenizer_json()), 400);
  EXPECT_EQ(file.at("tokenizer.ggml.model").as_text(), "llama");
  EXPECT_EQ(file.at("tokenizer.ggml.tokens").size(), 400u);
  const data::TokenizerPtr found = data::tokenizer_of(file, "written").tokenizer;
  size_t compared = 0;
  for (const auto& [text, tokens] :
       SentencePieceFile::stored()["encoded"].get<std::vector<std::pair<std::string, std::vector<int32_t>>>>()) {
    if (text.find("<tool>") != std::string::npos) continue;  // tokenizer_gguf_test.cpp says why
    EXPECT_EQ(found->encode(text), tokens) << text;
    ++compared;
  }
  EXPECT_GT(compared, 20u);
}

// Scores order tokens as the model's own do; types are the model's own.
TEST(WriteGgufSentencePiece, ScoresAndTypesAreTheModels) {
  const SentencePieceFile model;
  const Gguf file = file_of(PipelineTokenizer(llama2()));
  const std::vector<double> types = file.at("tokenizer.ggml.token_type").numbers();
  const std::vector<double> scores = file.at("tokenizer.ggml.scores").numbers();
  ASSERT_EQ(types.size(), model.types.size());
  EXPECT_TRUE(std::ranges::equal(types, model.types));
  size_t merged = 0;
  for (size_t i = 1; i < scores.size(); ++i) {
    if (types[i] != 1 || types[i - 1] != 1 || scores[i] == scores[i - 1]) continue;
    EXPECT_EQ(scores[i] < scores[i - 1], model.scores[i] < model.scores[i - 1]) << i;
    ++merged;
  }
  EXPECT_GT(merged, 30u);
}

TEST(WriteGgufSentencePiece, FormsOfFamiliesAreReadAgain) {
  const auto all = [](const std::string&) { return true; };
  const PipelineTokenizer first(llama2());
  EXPECT_EQ(expect_equal(*written(first), first, all), texts().size());
  GgufWriter writer;
  EXPECT_EQ(data::add_tokenizer(writer, first, 0), "");
  // Where Metaspace and SentencePiece part: a text that begins with a space, or stands behind a token that was found.
  const PipelineTokenizer second(mistral());
  const auto plain = [](const std::string& text) {
    return !text.starts_with(' ') && !text.starts_with("\u2581") && text.find('<') == std::string::npos;
  };
  EXPECT_GT(expect_equal(*written(second), second, plain), 80u);
  GgufWriter other;
  EXPECT_EQ(data::add_tokenizer(other, second, 0),
            "a text that begins with a space, or stands behind a token that was found, gets one more in front, as "
            "SentencePiece has it");
  EXPECT_FALSE(file_of(PipelineTokenizer(gemma())).at("tokenizer.ggml.add_space_prefix").as_bool());
  const PipelineTokenizer third(gemma());
  const auto unmarked = [](const std::string& text) {
    return text.find("   ") == std::string::npos && text.find("\u2581\u2581\u2581") == std::string::npos;
  };
  EXPECT_GT(expect_equal(*written(third), third, unmarked), 100u);
  const auto three = written(third)->encode("a   a");
  EXPECT_EQ(std::ranges::count(three, static_cast<int32_t>(third.size() - 1)), 1);
}

TEST(WriteGgufSentencePiece, EndsAndUnknownTokensAreKept) {
  Pipeline p = llama2();
  p.ends.after = {*p.ends.end};
  GgufWriter writer;
  data::add_tokenizer(writer, PipelineTokenizer(p), 0);
  writer.add("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(*p.ends.end));
  const Gguf file = Gguf::of(FileBytes::of(writer.bytes()), "written");
  EXPECT_EQ(file.at("tokenizer.ggml.unknown_token_id").as_unsigned(), 0u);
  const auto read = data::tokenizer_of(file, "written").tokenizer;
  EXPECT_EQ(read->ends().before, p.ends.before);
  EXPECT_EQ(read->ends().after, p.ends.after);
}

TEST(WriteGgufSentencePiece, WhatScoresDoNotSayIsRefused) {
  const auto refused = [](const Pipeline& p, const char* why) {
    expect_error<ValueError>([&] { file_of(PipelineTokenizer(p)); }, {"[gguf]", why, "save a folder instead"});
  };
  const auto changed = [](auto change) {
    Pipeline p = llama2();
    change(p, std::get<data::PairModel>(p.model));
    return p;
  };
  refused(changed([](auto&, auto& m) { m.merges.erase(m.merges.begin() + 3); }), "no merge joins");
  refused(changed([](auto&, auto& m) { m.whole_words = true; }), "keeps pieces");
  refused(changed([](auto& p, auto&) { p.byte_fallback = false; }), "no bytes for characters");
  refused(changed([](auto& p, auto&) { p.decoding.pop_back(); }), "texts of tokens otherwise");
  refused(changed([](auto& p, auto&) { p.normalisers[0] = data::Prepend{"_"}; }), "otherwise than SentencePiece");
  refused(changed([](auto& p, auto&) { p.cuts = {data::CutDigits{}}; }), "otherwise than SentencePiece");
  refused(changed([](auto& p, auto&) {
            p.normalisers.clear();
            p.cuts = {data::CutSpaces{.mark = "\u2581"}};
          }),
          "otherwise than SentencePiece");
  refused(changed([](auto& p, auto&) { p.ends.after = {1, 2}; }), "several tokens around");
  for (const auto& [family, why] : {std::pair{"unigram_bytes", "not one of pairs"},
                                    {"few_unigrams", "not one of pairs"},
                                    {"unknown_pairs", "no bytes"},
                                    {"llama2", "order of no scores"},
                                    {"byte_level", "cuts texts in another way"}}) {
    const std::string file = stored_conversions()["tokenizers"][family]["file"];
    expect_error<ValueError>([&] { file_of(*data::parse_tokenizer(file)); }, {"[gguf]", why});
  }
}

TEST(ScoresOfMerges, AreTheReverseOfMergesByScore) {
  const std::vector<std::string> names = {"a", "b", "ab", "aab", "<a>", "ba"};
  const std::vector<bool> mergeable = {true, true, true, true, false, true};
  std::vector<float> scores;
  using Merges = std::vector<data::PairModel::Merge>;
  const Merges merges = {{0, 1, 2}, {0, 2, 3}, {1, 0, 5}};
  EXPECT_EQ(data::detail::scores_of_merges(names, merges, mergeable, scores), "");
  EXPECT_EQ(scores, (std::vector<float>{-3, -3, 0, -1, 0, -2}));
  const auto fault = [&](const Merges& of) { return data::detail::scores_of_merges(names, of, mergeable, scores); };
  EXPECT_EQ(fault({{0, 1, 2}, {0, 2, 3}}), "no merge joins 'b' and 'a'");
  EXPECT_EQ(fault({{0, 1, 2}, {1, 0, 5}, {0, 1, 2}, {0, 2, 3}}), "merges to 'ab' stand at ranks apart");
  EXPECT_EQ(data::detail::scores_of_merges({}, {}, {}, scores), "");
}

// Runs of spaces whose merges stand by the length of their left part, as transformers writes Llama 2's.
TEST(ScoresOfMerges, RunsOfOneCharacterShareAScore) {
  const std::vector<std::string> names = {"_", "__", "___", "____", "a", "_a"};
  const std::vector<bool> mergeable(names.size(), true);
  std::vector<float> scores;
  const auto fault = [&](const std::vector<data::PairModel::Merge>& merges) {
    return data::detail::scores_of_merges(names, merges, mergeable, scores);
  };
  EXPECT_EQ(fault({{0, 4, 5}, {2, 0, 3}, {1, 0, 2}, {1, 1, 3}, {0, 1, 2}, {0, 0, 1}, {0, 2, 3}}), "");
  EXPECT_EQ(scores[5], 0);
  EXPECT_LT(scores[1], 0);
  EXPECT_EQ(scores[1], scores[2]);
  EXPECT_EQ(scores[1], scores[3]);
  EXPECT_EQ(fault({{2, 0, 3}, {0, 4, 5}, {1, 0, 2}, {1, 1, 3}, {0, 1, 2}, {0, 0, 1}, {0, 2, 3}}),
            "merges to '____' stand at ranks apart");
}

}  // namespace
}  // namespace heddle::tests
