// tokenizer.json files that hold something else than what is known, and characters without a token: each is named.
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/data/tokenizer.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

using data::TokenizerPtr;
using Json = nlohmann::json;

// A file of the oracle (tokenizer_json_values.py) with a change.
Json changed(const std::string& family, const std::function<void(Json&)>& change) {
  static const Json stored = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/tokenizer_json_values.json"));
  Json file = Json::parse(stored["tokenizers"][family]["file"].get<std::string>());
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
  expect_error<ValueError>([&] { unigram->decode(std::vector<int32_t>{9999}); }, {"there is no token 9999"});
}

}  // namespace
}  // namespace heddle::tests
