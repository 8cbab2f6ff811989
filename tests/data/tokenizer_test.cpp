// Tokenizers: against regex, tokenizers and tiktoken (tokenizer_values.py), on any bytes, through files, and with what
// does not fit together.
#include "heddle/data/tokenizer.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "heddle/core/base/error.h"
#include "heddle/data/preprocess.h"
#include "heddle/data/random.h"
#include "heddle/data/unicode.h"
#include "heddle/data/words.h"
#include "heddle/io/read_file.h"
#include "tests/support/processor_time.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::BpeTokenizer;
using data::CharTokenizer;
using data::SpecialTokens;
using test::contains;
using test::thrown_text;
using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

const Json& stored() {
  static const Json values = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/tokenizer_values.json"));
  return values;
}

std::shared_ptr<const BpeTokenizer> trained(int64_t vocabulary = 400, std::vector<std::string> special = {}) {
  return BpeTokenizer::train(stored()["corpus"].get<std::string>(),
                             {.vocabulary = vocabulary, .special = std::move(special)});
}

std::string merges_file(const BpeTokenizer& tokenizer) {
  const test::TemporaryFolder folder;
  tokenizer.save(folder.path());
  const std::string text = test::read_text(folder / "merges.txt");
  return text.substr(text.find('\n') + 1);
}

std::string random_bytes(data::Random& random, int64_t most) {
  std::string text(static_cast<size_t>(random.integer(most)), '\0');
  for (char& c : text) c = static_cast<char>(random.integer(256));
  return text;
}

TEST(Words, AreThoseOfTheRegularExpression) {
  for (const auto& [text, lengths] :
       stored()["words"].get<std::vector<std::pair<std::string, std::vector<size_t>>>>()) {
    std::vector<size_t> found;
    data::for_each_word(text, [&](std::string_view word) { found.push_back(word.size()); });
    EXPECT_EQ(found, lengths) << Json(text).dump();
  }
}

TEST(Words, JoinedAreTheTextWhateverItsBytes) {
  data::Random random(1, 0, 0);
  for (int i = 0; i < 300; ++i) {
    const std::string text = random_bytes(random, 60);
    std::string joined;
    data::for_each_word(text, [&](std::string_view word) {
      ASSERT_FALSE(word.empty());
      joined += word;
    });
    EXPECT_EQ(joined, text);
  }
}

TEST(Bpe, LearnsTheMergesOfTokenizers) {
  std::string expected;
  for (const std::string line : stored()["merges"]) expected += line + "\n";
  EXPECT_EQ(merges_file(*trained()), expected);
}

TEST(Bpe, EncodesAsTokenizersAndTiktokenDo) {
  const auto tokenizer = trained();
  for (const auto& [text, tokens] : stored()["encoded"].get<std::vector<std::pair<std::string, Tokens>>>()) {
    EXPECT_EQ(tokenizer->encode(text), tokens) << Json(text).dump();
    EXPECT_EQ(tokenizer->decode(tokens), text);
  }
}

TEST(Bpe, LearnsShakespeareAsTokenizersDo) {
  const std::string path = HEDDLE_SOURCE_DIR "/../shared/data/tinyshakespeare/input.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
  const std::string text = read_text_file(path, "test");
  const auto tokenizer = BpeTokenizer::train(text, {.vocabulary = 1256, .special = {}});
  const std::string merges = merges_file(*tokenizer);
  const Json& expected = stored()["shakespeare"];
  EXPECT_EQ(::crc32_z(0, reinterpret_cast<const Bytef*>(merges.data()), merges.size()),
            expected["merges_crc"].get<uint64_t>());
  Tokens tokens = tokenizer->encode(text);
  EXPECT_EQ(tokens.size(), expected["tokens"].get<size_t>());
  EXPECT_EQ(tokenizer->decode(tokens), text);
  tokens.resize(50);
  EXPECT_EQ(tokens, expected["first"].get<Tokens>());
}

TEST(Bpe, AnyBytesComeBack) {
  const auto tokenizer = trained();
  data::Random random(2, 0, 0);
  for (int i = 0; i < 500; ++i) {
    const std::string text = random_bytes(random, 200);
    EXPECT_EQ(tokenizer->decode(tokenizer->encode(text)), text);
  }
  const std::string one_word(200'000, 'a');  // one word is no square of its length
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(one_word)), one_word);
}

TEST(Bpe, SpecialTokensAreTextUnlessAskedFor) {
  const auto tokenizer = trained(300, {"<|endoftext|>", "<|endoftext|>s"});
  const int32_t end = tokenizer->special().at("<|endoftext|>"), longer = tokenizer->special().at("<|endoftext|>s");
  EXPECT_EQ(end, 298);
  EXPECT_EQ(longer, 299);
  const std::string text = "ab<|endoftext|>s<|endoftext|>";
  const Tokens plain = tokenizer->encode(text);
  EXPECT_EQ(std::count(plain.begin(), plain.end(), end), 0);
  EXPECT_EQ(tokenizer->decode(plain), text);
  Tokens expected = tokenizer->encode("ab");
  expected.insert(expected.end(), {longer, end});
  EXPECT_EQ(tokenizer->encode(text, SpecialTokens::recognised), expected);
  EXPECT_EQ(tokenizer->decode(expected), text);
}

// A special token that never occurs was looked for behind every one that does: 400 KB took 13.6 s.
TEST(Bpe, SpecialTokensAreFoundInOnePass) {
  const auto tokenizer = trained(300, {"<|a|>", "<|never|>"});
  std::string text;
  for (int i = 0; i < 80'000; ++i) text += "<|a|>";
  const std::clock_t start = std::clock();
  const Tokens tokens = tokenizer->encode(text, SpecialTokens::recognised);
  EXPECT_LT(test::processor_seconds_since(start), 3) << "measured: 0.02 s; 13 s when it grew with the square";
  EXPECT_EQ(tokens, Tokens(80'000, tokenizer->special().at("<|a|>")));
}

// nlohmann's ordered objects compare a key with all before it: 50,000 tokens took 11 s to read and 10 s to write.
TEST(Bpe, ALargeVocabularyIsReadInOnePass) {
  std::string vocabulary;
  const Json small = Json::parse(trained(256, {})->str());
  for (const auto& [name, number] : small["vocab"].items())
    vocabulary += (vocabulary.empty() ? "" : ",") + Json(name).dump() + ":" + number.dump();
  for (int i = 256; i < 40'000; ++i) vocabulary += ",\"<special " + std::to_string(i) + ">\":" + std::to_string(i);
  const std::clock_t start = std::clock();
  const auto tokenizer = data::parse_tokenizer(R"({"type":"bpe","merges":[],"vocab":{)" + vocabulary + "}}");
  EXPECT_EQ(data::parse_tokenizer(tokenizer->str())->size(), 40'000);
  data::Preprocessing preprocessing;
  preprocessing.tokenizer = tokenizer;
  EXPECT_EQ(data::Preprocessing::parse(preprocessing.str(), "memory").tokenizer->str(), tokenizer->str());
  EXPECT_LT(test::processor_seconds_since(start), 5) << "measured: 0.3 s";
}

TEST(Bpe, ComesBackFromFilesAndText) {
  const auto tokenizer = trained(350, {"<|endoftext|>", "<ü pad>"});
  const test::TemporaryFolder folder;
  tokenizer->save(folder.path());
  const auto loaded = BpeTokenizer::load(folder / "vocab.json", folder / "merges.txt");
  const auto parsed = data::parse_tokenizer(tokenizer->str());
  EXPECT_EQ(loaded->str(), tokenizer->str());
  EXPECT_EQ(parsed->str(), tokenizer->str());
  EXPECT_EQ(loaded->special(), tokenizer->special());
  const std::string corpus = stored()["corpus"];
  EXPECT_EQ(parsed->encode(corpus), tokenizer->encode(corpus));
}

TEST(Bpe, FilesThatDoNotFit) {
  const test::TemporaryFolder folder;
  const std::string vocab = folder / "vocab.json", merges = folder / "merges.txt";
  trained(260)->save(folder.path());
  const Json good = Json::parse(test::read_text(vocab));
  const auto error = [&](const Json& vocabulary, const std::string& lines) {
    std::ofstream(vocab) << vocabulary;
    std::ofstream(merges) << lines;
    return thrown_text<IoError>([&] { BpeTokenizer::load(vocab, merges); });
  };
  EXPECT_TRUE(contains(error(good, "#version: 0.2\nzz h\n"), "merges.txt:2: token 'zz' is not in the vocabulary"));
  EXPECT_TRUE(contains(error(good, "a b c\n"), "merges.txt:1: 'a b c' is not two tokens"));
  for (const char* line : {"ab\n", "a \n", " a\n"})
    EXPECT_TRUE(contains(error(good, line), "is not two tokens")) << line;
  Json bad = good;
  bad["a"] = 17;
  EXPECT_TRUE(contains(error(bad, ""), "260 tokens must have the numbers 0 to 259, each once"));
  bad["a"] = -1;
  EXPECT_TRUE(contains(error(bad, ""), "token 'a' has the number -1"));
  bad = good;
  bad.erase("~");
  bad["more"] = bad.size();
  EXPECT_TRUE(contains(error(bad, ""), "has the number"));
  EXPECT_TRUE(contains(error(Json::array({1}), ""), "not a JSON object"));
  EXPECT_TRUE(contains(error(Json{{"a", 0}}, ""), "there is no token for the byte 0x"));
  std::ofstream(vocab) << "{";
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { BpeTokenizer::load(vocab, merges); }), "not JSON"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { BpeTokenizer::load(folder / "none", merges); }), "no such file"));
}

TEST(Bpe, RefusesWhatCannotBeMeant) {
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { trained(200); }), "a vocabulary of 200 is not between 256"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { trained(300, {"x", "x"}); }), "given twice"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { trained(300, {"a"}); }), "the token 'a' is there twice"));
  const auto tokenizer = trained(270);
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] {
                         tokenizer->decode(Tokens{1, 270});
                       }),
                       "there is no token 270 among 270"));
  EXPECT_THROW(tokenizer->text_of(-1), ValueError);
  EXPECT_NO_THROW(data::check_vocabulary(*tokenizer, 270));
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::check_vocabulary(*tokenizer, 65); }),
                       "it has 270 tokens, but the model's vocabulary is 65"));
}

TEST(Bpe, StopsWhereNoPairIsFrequentEnough) {
  EXPECT_EQ(BpeTokenizer::train("abab abab", {.vocabulary = 1000, .special = {}})->merges().size(), 2u);  // ab, abab
  EXPECT_EQ(BpeTokenizer::train("", {.vocabulary = 1000, .special = {}})->size(), 256);
}

TEST(Characters, InTheOrderOfCodePoints) {
  const CharTokenizer tokenizer("za漢bßa\n");
  EXPECT_EQ(tokenizer.size(), 6);
  EXPECT_EQ(tokenizer.encode("\nabzß漢"), (Tokens{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(tokenizer.decode(Tokens{5, 0, 4}), "漢\nß");
  const auto back = data::parse_tokenizer(tokenizer.str());
  EXPECT_EQ(back->str(), tokenizer.str());
  EXPECT_EQ(back->encode("zß"), (Tokens{3, 4}));
}

TEST(Characters, UnknownOnesAreNamed) {
  const CharTokenizer tokenizer("ab");
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { tokenizer.encode("abü"); }),
                       "'ü' (U+00FC) at byte 2 is not among the 2 characters"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { tokenizer.encode("\n"); }), "U+000A at byte 0"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { tokenizer.encode("a\xFF"); }), "byte 0xFF at byte 1"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { tokenizer.decode(Tokens{2}); }), "there is no token 2 among 2"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { CharTokenizer("a\xC3"); }), "no UTF-8 at byte 1"));
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { CharTokenizer(""); }), "empty"));
}

// Messages print what they refuse, and printing a value of 200,000 levels ended the process.
TEST(Tokenizers, DeepTextIsRefused) {
  const std::string open(200'000, '['), deep = open + std::string(200'000, ']');
  for (const std::string& text :
       {open, deep, "{\"type\":\"bpe\",\"merges\":[],\"vocab\":{\"a\":" + deep + "}}", "{\"type\":" + deep + "}"}) {
    EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::parse_tokenizer(text, "t.json"); }),
                         "[tokenizer] t.json: not JSON: "))
        << text.size();
    EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::Preprocessing::parse(text, "m.safetensors"); }),
                         "brackets are more than 100 deep"));
  }
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "vocab.json", {deep.begin(), deep.end()});
  test::write_bytes(folder / "merges.txt", {});
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { BpeTokenizer::load(folder / "vocab.json", folder / "merges.txt"); }),
                       "brackets are more than 100 deep"));
  // Brackets in strings are none.
  const std::string all = data::CharTokenizer(open + "\\\"x").str();
  EXPECT_EQ(data::parse_tokenizer(all)->size(), 4);
}

TEST(Tokenizers, StoredTextThatDoesNotFit) {
  EXPECT_TRUE(contains(thrown_text<IoError>([] { data::parse_tokenizer("{}", "model.safetensors"); }),
                       "[tokenizer] model.safetensors: not what a tokenizer is stored as"));
  EXPECT_TRUE(
      contains(thrown_text<IoError>([] { data::parse_tokenizer(R"({"type": "words"})"); }), "known: bpe, characters"));
  EXPECT_TRUE(contains(
      thrown_text<IoError>([] { data::parse_tokenizer(R"({"type": "characters", "characters": ""})"); }), "empty"));
  EXPECT_THROW(data::parse_tokenizer(R"({"type": "bpe", "vocab": {}, "merges": []})"), IoError);
  EXPECT_THROW(data::parse_tokenizer("\xFF"), IoError);
}

// The oracle: Python's codec, which wrote the lengths and the sum of all bytes below (sum(sum(chr(c).encode()) for c in
// range(0x110000) if no surrogate)).
TEST(Unicode, EveryCharacterComesBack) {
  uint64_t sum = 0;
  for (int32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code < 0xE000) continue;
    const std::string text = data::utf8(code);
    for (const char c : text) sum += static_cast<uint8_t>(c);
    const data::Character back = data::character_at(text, 0);
    ASSERT_EQ(back.code, code);
    ASSERT_EQ(back.bytes, text.size());
    ASSERT_EQ(text.size(), code < 0x80 ? 1u : code < 0x800 ? 2u : code < 0x10000 ? 3u : 4u);
  }
  EXPECT_EQ(sum, 789778368u);
}

TEST(Unicode, MalformedBytesAreCharactersOfTheirOwn) {
  // Cut short; a continuation alone; longer than needed; a surrogate; beyond U+10FFFF; bytes that begin nothing.
  for (const std::string bad :
       {"\xC3", "\xE2\x82", "\xF0\x9F\x98", "\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
        "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3z", "\xE2\x82z", "\xF0\x9F\x98z"}) {
    const data::Character c = data::character_at(bad, 0);
    EXPECT_EQ(c.code, -1) << testing::PrintToString(bad);
    EXPECT_EQ(c.bytes, 1) << testing::PrintToString(bad);
  }
}

TEST(Unicode, WholeCharacters) {
  EXPECT_EQ(data::whole_characters("ab"), 2u);
  EXPECT_EQ(data::whole_characters("a\xC3"), 1u);
  EXPECT_EQ(data::whole_characters("aü"), 3u);
  EXPECT_EQ(data::whole_characters("\xF0\x9F\x98"), 0u);
  EXPECT_EQ(data::whole_characters("\xF0\x9F\x98\x80"), 4u);
  EXPECT_EQ(data::whole_characters("\x80\x80\x80\x80\x80"), 5u);  // nothing that could be continued
  EXPECT_EQ(data::whole_characters(""), 0u);
}

}  // namespace
}  // namespace heddle
