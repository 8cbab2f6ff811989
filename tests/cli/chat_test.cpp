// heddle chat with a pipe for a terminal: lines, their end, empty ones, those of Windows, a conversation beyond the
// context, JSON, Ctrl-C while it waits.
#include <chrono>
#include <csignal>
#include <thread>

#include "heddle/core/base/system/process.h"
#include "tests/cli/finetune_fixture.h"
#include "tests/cli/user_error.h"

namespace heddle {
namespace {

using test::contains;
using test::expect_user_error;
using test::Finished;

class ChatCommand : public test::FinetuneCommand {
 protected:
  // What it answers to standard input, whose end ends it.
  Finished told(const std::string& input, const Words& more = {}) const {
    Words all = {"/bin/sh", "-c", "printf '%s' \"$0\" | \"$@\"", input, HEDDLE_BINARY_DIR "/bin/heddle"};
    const Words words = chat(more);
    all.insert(all.end(), words.begin(), words.end());
    return test::run_program(all, {.environment = {{"HEDDLE_SELF_TEST", "0"}}});
  }
  Words chat(const Words& more = {}) const {
    Words all = {"chat", model, "--device", "reference:0", "--temperature", "0", "--tokens", tokens};
    if (!form.empty()) all.insert(all.end(), {"--template", form});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static std::vector<std::string> texts(const Finished& run) {
    EXPECT_EQ(run.exit_code, 0) << run.err;
    std::vector<std::string> found;
    for (const Json& line : lines(run, "answer")) found.push_back(line["text"]);
    return found;
  }
  std::string tokens = "6", form = "plain";
};

TEST_F(ChatCommand, LinesAreQuestions) {
  const Finished run = told("what follows 3?\n\n  \nand 4?", {"--json"});  // the last line without its end
  const std::vector<std::string> answers = texts(run);
  ASSERT_EQ(answers.size(), 2u) << run.out;
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(texts(told("what follows 3?\r\n\r\nand 4?\r\n", {"--json"})), answers);
  const std::vector<Json> events = lines(run, "answer");
  EXPECT_GT(events[1]["prompt_tokens"], events[0]["prompt_tokens"]);  // it has the first question and answer
  EXPECT_EQ(events[0]["tokens"], 6);
  EXPECT_EQ(told("what follows 3?\n").out, answers[0] + "\n");
  EXPECT_EQ(told("").out, "");
}

TEST_F(ChatCommand, TheOldestTurnsAreForgottenWhereTheContextIsFull) {
  tokens = "24";
  std::string input;
  for (int i = 0; i < 6; ++i) input += fmt::format("what follows {}?\n", i);
  const Finished run = told(input, {"--json", "--system", "Count."});
  const std::vector<Json> events = lines(run, "answer");
  ASSERT_EQ(events.size(), 6u) << run.err;
  for (const Json& event : events) {
    EXPECT_EQ(event["tokens"], 24);
    EXPECT_LE(event["prompt_tokens"].get<int>() + 24, 128);
  }
  EXPECT_TRUE(contains(run.err, "context of 128 tokens is full: the oldest 2 turns are forgotten")) << run.err;
  const Finished one = told(std::string(900, 'x') + "\n");
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_TRUE(contains(one.err, "[chat] the question has ")) << one.err;
}

TEST_F(ChatCommand, TemplatesThatAreMissingOrUnknownAreSaid) {
  form = "";
  expect_user_error(chat(), "brings no chat template; give --template, one of ");
  write("hf/chat_template.jinja", "{{ thoughts }}");
  expect_user_error(chat(), "has a chat template that is unknown; give --template");
  form = "nonsense";
  expect_user_error(chat(), "chatml");
}

TEST_F(ChatCommand, CtrlCEndsItWhileItWaits) {
  const std::string program = HEDDLE_BINARY_DIR "/bin/heddle";
  Words words = chat({"--json"});
  words.insert(words.begin(), program);
  os::ChildProcess child(program, words,
                         {.input = os::ChildStream::pipe,
                          .error = os::ChildStream::pipe,
                          .variables = {{"HEDDLE_SELF_TEST", "0"}},
                          .own_group = false});
  ASSERT_TRUE(child.write("what follows 3?\n"));
  std::string out, err;
  const auto start = std::chrono::steady_clock::now();
  bool sent = false;
  while (child.read(out, &err, 0.05)) {
    const auto waited = std::chrono::steady_clock::now() - start;
    if (!sent && contains(out, "\n")) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // until it waits for the next line
      child.send_signal(SIGINT);
      sent = true;
    }
    if (waited > std::chrono::seconds(60)) child.kill();
  }
  EXPECT_EQ(child.wait().signal, SIGINT) << child.wait().str() << out << err;
}

}  // namespace
}  // namespace heddle
