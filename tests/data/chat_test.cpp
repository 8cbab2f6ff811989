// Chat files: the forms, what is left out of them and said, and what is refused with the number of its line.
#include "heddle/data/chat.h"

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using data::ChatFile;

std::string written(const std::vector<data::ChatTurn>& turns) {
  std::string text;
  for (const data::ChatTurn& turn : turns) text += turn.role + (turn.trained ? "=" : "~") + turn.content + "|";
  return text;
}

std::string only(const std::string& line, const std::string& form) {
  const ChatFile file = data::parse_chat_file(line + "\n", "a.jsonl");
  EXPECT_EQ(file.form, form);
  EXPECT_EQ(file.examples.size(), 1u);
  return file.examples.empty() ? "" : written(file.examples[0].turns);
}

TEST(ChatFiles, FormsAreRecognised) {
  EXPECT_EQ(
      only(R"({"messages":[{"role":"developer","content":"be"},{"role":"user","content":"a\nb"},)"
           R"({"role":"assistant","content":"c","weight":0},{"role":"user","content":[{"type":"text","text":"d"},)"
           R"({"type":"text","text":"e"}]},{"role":"assistant","content":"f","weight":1}],"other":1})",
           "messages"),
      "system=be|user=a\nb|assistant~c|user=de|assistant=f|");
  EXPECT_EQ(
      only(R"({"id":"x","conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"ü"}]})", "conversations"),
      "user=a|assistant=ü|");
  EXPECT_EQ(only(R"({"instruction":"sum","input":"1 2","output":"3","system":"s"})", "instruction"),
            "system=s|user=sum\n\n1 2|assistant=3|");
  EXPECT_EQ(only(R"({"instruction":"sum","input":"","output":"3"})", "instruction"), "user=sum|assistant=3|");
  EXPECT_EQ(only(R"({"instruction":"q","context":"c","response":"r","category":"x"})", "instruction"),
            "user=q\n\nc|assistant=r|");
  EXPECT_EQ(only(R"({"prompt":"q","completion":"r"})", "prompt"), "user=q|assistant=r|");
  EXPECT_EQ(
      only(R"({"prompt":[{"role":"user","content":"q"}],"completion":[{"role":"assistant","content":"r"}]})", "prompt"),
      "user=q|assistant=r|");
  const ChatFile text = data::parse_chat_file("{\"text\":\"a b\"}\r\n{\"text\":\"c\"}", "a.jsonl");
  EXPECT_EQ(text.form, "text");
  ASSERT_EQ(text.examples.size(), 2u);
  EXPECT_EQ(text.examples[0].text, "a b");
  EXPECT_EQ(text.examples[1].line, 2);
  EXPECT_TRUE(text.examples[0].turns.empty());
}

TEST(ChatFiles, AreListsAndTextsToo) {
  const ChatFile list = data::parse_chat_file(
      "\xEF\xBB\xBF [ {\"instruction\":\"a\",\n\"output\":\"b\"},\n"
      "{\"instruction\":\"c\",\"output\":\"d\"}]",
      "a.json");
  ASSERT_EQ(list.examples.size(), 2u);
  EXPECT_EQ(list.examples[1].line, 2);
  test::TemporaryFolder folder;
  std::ofstream(folder / "a.txt") << "to be\n\nor not ä\n";
  const ChatFile text = data::read_chat_file(folder / "a.txt");
  EXPECT_EQ(text.form, "text");
  ASSERT_EQ(text.examples.size(), 1u);
  EXPECT_EQ(text.examples[0].text, "to be\n\nor not ä\n");
  EXPECT_EQ(text.examples[0].line, 1);
  expect_error<IoError>([&] { data::read_chat_file(folder / "b.jsonl"); }, {"[chat]", "b.jsonl"});
  expect_error<IoError>([] { data::parse_chat_file("a\xff", "a.txt"); }, {"a.txt", "byte 1 is no UTF-8"});
  expect_error<IoError>([] { data::parse_chat_file(" \n", "a.txt"); }, {"empty"});
}

const std::string good = R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]})";

struct BadLine {
  const char *line, *reason;
};
const std::vector<BadLine> bad_lines = {
    {"", "the line is empty"},
    {" \t", "the line is empty"},
    {"{\"messages\":[", "not JSON"},
    {"{\"messages\":[{\"role\":\"user\",\"content\":\"\xff\"}]}", "not JSON"},
    {"3", "no object"},
    {"{\"prompt\":\"a\",\"completion\":\"b\"}", "there is no 'messages'"},
    {R"({"messages":{}})", "'messages' is no list"},
    {R"({"messages":[]})", "no answer"},
    {R"({"messages":[3]})", "a turn is no object"},
    {R"({"messages":[{"role":"user","content":"a"}]})", "no answer"},
    {R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":" \n"}]})", "the answer is empty"},
    {R"({"messages":[{"role":"user","content":""},{"role":"assistant","content":"b"}]})", "the question is empty"},
    {R"({"messages":[{"role":"tool","content":"a"},{"role":"assistant","content":"b"}]})", "the role 'tool'"},
    {R"({"messages":[{"role":"user"},{"role":"assistant","content":"b"}]})", "there is no 'content'"},
    {R"({"messages":[{"role":"user","content":7},{"role":"assistant","content":"b"}]})", "'content' is no text"},
    {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]},{"role":"assistant","content":"b"}]})",
     "a part that is no text"},
    {R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","weight":2}]})", "'weight'"},
    {R"({"messages":[{"role":"user","content":"a"},{"role":"system","content":"s"},)"
     R"({"role":"assistant","content":"b"}]})",
     "turn 2 is a system's"},
};

TEST(ChatFiles, BadLinesAreNamedOrLeftOut) {
  for (const BadLine& bad : bad_lines) {
    const std::string text = good + "\n" + bad.line + "\n" + good + "\n\n \n";
    expect_error<IoError>([&] { data::parse_chat_file(text, "a.jsonl"); }, {"[chat] a.jsonl: line 2: ", bad.reason});
    const ChatFile file = data::parse_chat_file(text, "a.jsonl", {.skip_bad = true});
    ASSERT_EQ(file.examples.size(), 2u) << bad.line;
    EXPECT_EQ(file.examples[1].line, 3);
    ASSERT_EQ(file.remarks.size(), 1u);
    EXPECT_TRUE(file.remarks[0].starts_with("1 of 3 lines left out: line 2: ")) << file.remarks[0];
    EXPECT_NE(file.remarks[0].find(bad.reason), std::string::npos) << file.remarks[0];
  }
  const ChatFile many = data::parse_chat_file("\n\n\n\n" + good, "a.jsonl", {.skip_bad = true});
  EXPECT_EQ(many.remarks[0].substr(0, 24), "4 of 5 lines left out: l");
  EXPECT_TRUE(many.remarks[0].ends_with("; ...")) << many.remarks[0];
  expect_error<IoError>([] { data::parse_chat_file("3\n", "a.jsonl", {.skip_bad = true}); }, {"no example", "line 1"});
  expect_error<IoError>([] { data::parse_chat_file("", "a.jsonl"); }, {"a.jsonl: there is no example"});
  expect_error<IoError>([] { data::parse_chat_file("[3]", "a.json"); }, {"element 1: the record is no object"});
  expect_error<IoError>([] { data::parse_chat_file("{\"a\":1}", "a.json"); }, {"line 1", "has none of messages"});
}

TEST(ChatFiles, AreLimited) {
  expect_error<IoError>([] { data::parse_chat_file(std::string(100000, '['), "a.json"); }, {"[chat] a.json"});
  expect_error<IoError>([] { data::parse_chat_file("{\"messages\":" + std::string(100000, '['), "a.jsonl"); },
                        {"line 1", "not JSON"});
  expect_error<IoError>([] { data::parse_chat_file("{" + std::string(size_t{17} << 20, ' ') + "}", "a.jsonl"); },
                        {"line 1", "at most 16777216"});
  std::string turns;
  for (int i = 0; i < 4097; ++i) turns += R"({"role":"user","content":"a"},)";
  expect_error<IoError>([&] { data::parse_chat_file("{\"messages\":[" + turns + "3]}", "a.jsonl"); },
                        {"expected at most 4096"});
}

TEST(ChatFiles, QuestionsWithoutAnswerAreLeftOut) {
  const ChatFile file = data::parse_chat_file(
      R"({"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"},{"from":"human","value":"c"}]})",
      "a.jsonl");
  EXPECT_EQ(written(file.examples[0].turns), "user=a|assistant=b|");
  ASSERT_EQ(file.remarks.size(), 1u);
  EXPECT_EQ(file.remarks[0], "1 example ends with a question that has no answer: these are left out");
}

TEST(Preferences, AreTextsOrMessages) {
  const auto read = [](const std::string& line, bool skip = false) {
    return data::parse_preferences(line, "p.jsonl", {.skip_bad = skip});
  };
  const auto texts = read(R"({"prompt":"q","chosen":"a","rejected":"b"})");
  ASSERT_EQ(texts.pairs.size(), 1u);
  EXPECT_EQ(written(texts.pairs[0].chosen.turns), "user=q|assistant=a|");
  EXPECT_EQ(written(texts.pairs[0].rejected.turns), "user=q|assistant=b|");
  EXPECT_EQ(texts.pairs[0].rejected.line, 1);
  const std::string asked = R"([{"role":"user","content":"q"},{"role":"assistant","content":")";
  for (const std::string prompt : {"", "\"prompt\":\"q\","}) {
    const auto whole = read("{" + prompt + "\"chosen\":" + asked + "a\"}],\"rejected\":" + asked + "b\"}]}");
    EXPECT_EQ(written(whole.pairs[0].chosen.turns), "user=q|assistant=a|");
    EXPECT_EQ(written(whole.pairs[0].rejected.turns), "user=q|assistant=b|");
  }
  const auto lists = read(R"({"prompt":[{"role":"system","content":"s"},{"role":"user","content":"q"}],)"
                          R"("chosen":[{"role":"assistant","content":"a"}],"rejected":"b"})");
  EXPECT_EQ(written(lists.pairs[0].rejected.turns), "system=s|user=q|assistant=b|");
  for (const auto& [line, reason] : std::vector<std::pair<std::string, const char*>>{
           {R"({"prompt":"q","chosen":"a"})", "no 'rejected'"},
           {R"({"chosen":"a","rejected":"b"})", "no 'prompt'"},
           {R"({"prompt":"q","chosen":"a","rejected":"a"})", "are the same"},
           {R"({"prompt":"q","chosen":"a","rejected":" "})", "the answer is empty"},
           {"{\"chosen\":" + asked +
                R"(a"}],"rejected":[{"role":"user","content":"r"},{"role":"assistant","content":"b"}]})",
            "different questions"},
           {"[", "p.jsonl"}}) {
    expect_error<IoError>([&] { read(line); }, {"[chat] p.jsonl", reason});
  }
  EXPECT_EQ(read("3\n"
                 R"({"prompt":"q","chosen":"a","rejected":"b"})",
                 true)
                .remarks.size(),
            1u);
}

}  // namespace
}  // namespace heddle::tests
