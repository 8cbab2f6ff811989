// heddle tokenize and heddle pack, as a user meets them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/command_test.h"
#include "tests/cli/user_error.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;
using test::expect_user_error;
using test::Finished;
using test::run_heddle;

using TokenizeCommand = test::CommandTest;
using PackCommand = test::CommandTest;

TEST_F(TokenizeCommand, TrainsEncodesAndDecodes) {
  std::string corpus;
  for (int i = 0; i < 50; ++i) corpus += "the weaver lifts the warp, größer ";
  const std::string text = write("corpus.txt", corpus), out = folder / "tokenizer";
  const Json done = json({"tokenize", "train", text, "--out", out, "--vocabulary", "280"});
  EXPECT_EQ(done["tokens"], 280);
  for (const std::string& from : {out, out + "/tokenizer.json"}) {
    const Json tokens = json({"tokenize", "encode", "--tokenizer", from, "the größer warp"});
    EXPECT_LT(tokens.size(), 10u);
    std::vector<std::string> arguments = {"tokenize", "decode", "--tokenizer", from};
    for (const Json& token : tokens) arguments.push_back(token.dump());
    EXPECT_EQ(run_heddle(arguments).out, "the größer warp\n");
  }
  EXPECT_EQ(json({"tokenize", "encode", "--tokenizer", out, "--recognise-special", "<|endoftext|>"}),
            Json::array({279}));
  const Json about = json({"tokenize", "info", "--tokenizer", out, "--file", text});
  EXPECT_EQ(about["type"], "bpe");
  EXPECT_EQ(about["bytes"], corpus.size());
  EXPECT_GT(about["bytes_per_token"], 2);
}

// The oracle's file and tokens (tests/data/tokenizer_json_values.py).
TEST_F(TokenizeCommand, TakesATokenizerOfOthers) {
  const Json stored = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/tokenizer_json_values.json"));
  const Json& llama = stored["tokenizers"]["llama3"];
  write("tokenizer.json", llama["file"].get<std::string>());
  const Json& texts = stored["texts"];
  const auto at = std::find(texts.begin(), texts.end(), "the <|a|>  loom <|b|>lift  <|b|>  \n x<|a|><|a|>");
  ASSERT_NE(at, texts.end());
  EXPECT_EQ(json({"tokenize", "encode", "--tokenizer", folder.path(), "--recognise-special", at->get<std::string>()}),
            llama["recognised"][static_cast<size_t>(at - texts.begin())]);
  const Json about = json({"tokenize", "info", "--tokenizer", folder / "tokenizer.json"});
  EXPECT_EQ(about["type"], "pipeline");
  EXPECT_TRUE(about["special"].contains("<|a|>"));
}

TEST_F(TokenizeCommand, Characters) {
  const std::string text = write("corpus.txt", "abcü"), out = folder / "tokenizer";
  EXPECT_EQ(json({"tokenize", "train", text, "--out", out, "--kind", "characters"})["tokens"], 4);
  EXPECT_EQ(json({"tokenize", "encode", "--tokenizer", out, "cü"}), (Json{2, 3}));
  expect_user_error({"tokenize", "encode", "--tokenizer", out, "xyz"},
                    "'x' (U+0078) at byte 0 is not among the 4 characters");
  expect_user_error({"tokenize", "decode", "--tokenizer", out, "4"}, "there is no token 4 among 4");
}

TEST_F(TokenizeCommand, BadInput) {
  expect_user_error({"tokenize", "train", folder / "none.txt", "--out", folder / "t"}, "no such file");
  expect_user_error({"tokenize", "train", write("a.txt", "abc"), "--out", folder / "t", "--vocabulary", "100"},
                    "a vocabulary of 100 is not between 257");
  expect_user_error({"tokenize", "train", write("b.txt", "ab\xFF"), "--out", folder / "t"}, "is no UTF-8");
  expect_user_error({"tokenize", "info", "--tokenizer", write("bad.json", "{}")}, "not what a tokenizer is stored as");
  expect_user_error({"tokenize", "info", "--tokenizer", folder.path()}, "tokenizer.json: no such file");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.txt", "b.txt", "bad.json"}));
}

TEST_F(PackCommand, CsvAndText) {
  const std::string csv = write("a.csv", "x,y,kind\n1,2,a\n3,4,b\n"), out = folder / "a.rec";
  EXPECT_EQ(json({"pack", csv, "--out", out, "--label", "kind"})["examples"], 2);
  const Json verified = json({"pack", "verify", out});
  EXPECT_EQ(verified["examples"], 2);
  EXPECT_EQ(verified["first"], (Json{"(2) f32", "() i32"}));
  EXPECT_EQ(Json::parse(verified["metadata"].get<std::string>())["classes"], (Json{"a", "b"}));

  const std::string text = write("a.txt", "to be or not to be, that is the question"), tokens = folder / "t.rec";
  EXPECT_EQ(json({"pack", text, "--out", tokens, "--block", "8"})["examples"], 4);
  EXPECT_EQ(Json::parse(json({"pack", "verify", tokens})["metadata"].get<std::string>())["tokenizer"]["type"],
            "characters");
  EXPECT_TRUE(contains(run_heddle({"pack", text, "--out", tokens, "--block", "8"}).out, "4 examples"));
}

TEST_F(PackCommand, BadInput) {
  expect_user_error({"pack"}, "a source and --out are needed");
  expect_user_error({"pack", write("a.xyz", ""), "--out", folder / "a.rec"}, "cannot tell what this is");
  expect_user_error({"pack", write("a.csv", "a,b\n1\n"), "--out", folder / "a.rec"}, "a.csv:2: the row has 1 fields");
  expect_user_error({"pack", folder.path(), "--out", folder / "a.rec"}, "no folders of classes with images");
  expect_user_error({"pack", "verify", folder / "a.csv"}, "not a file of records");
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.csv", "a.xyz"}));  // nothing half written
}

TEST_F(PackCommand, FlippedBitsAreFound) {
  const std::string out = folder / "a.rec";
  json({"pack", write("a.csv", "x\n1\n2\n3\n"), "--out", out});
  std::vector<uint8_t> bytes = test::read_bytes(out);
  bytes[20] ^= 4;
  test::write_bytes(out, bytes);
  expect_user_error({"pack", "verify", out}, "record 0 is corrupt");
}

}  // namespace
}  // namespace heddle
