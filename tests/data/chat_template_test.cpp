// Chat templates: tokens and what is learned of them against Hugging Face's transformers (chat_values.py), the models'
// own templates recognised or not, special tokens in a turn, and tokenizers that do not fit.
#include "heddle/data/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/data/random.h"
#include "heddle/data/tokenizer_file.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using data::ChatExample;
using data::ChatTemplate;
using data::ChatTokens;
using data::ChatTurn;
using data::TokenizerPtr;
using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

const Json& stored_chats() {
  static const Json values = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/chat_values.json"));
  return values;
}

// As a model's folder has it, with the tokens that begin and end a text named beside it.
TokenizerPtr tokenizer_of(const std::string& name) {
  test::TemporaryFolder folder;
  std::ofstream(folder / "tokenizer.json") << stored_chats()["tokenizers"][name].get<std::string>();
  std::ofstream(folder / "tokenizer_config.json") << R"({"bos_token":"<s>","eos_token":{"content":"</s>"}})";
  return data::load_tokenizer(folder.path());
}

std::vector<ChatTurn> turns_of(const Json& messages) {
  std::vector<ChatTurn> turns;
  for (const Json& message : messages) turns.push_back({message["role"], message["content"]});
  return turns;
}

ChatExample of(const std::vector<ChatTurn>& turns, int64_t line = 0) { return {turns, "", line}; }

std::vector<size_t> trained_of(const ChatTokens& chat) {
  std::vector<size_t> places;
  for (size_t i = 0; i < chat.trained.size(); ++i)
    if (chat.trained[i] != 0) places.push_back(i);
  return places;
}

TEST(ChatTemplates, TokensAreThoseOfTransformers) {
  size_t cases = 0;
  for (const auto& [form, of_tokenizers] : stored_chats()["forms"].items())
    for (const auto& [name, values] : of_tokenizers.items()) {
      const TokenizerPtr tokenizer = tokenizer_of(name);
      for (size_t i = 0; i < values.size(); ++i, ++cases) {
        std::vector<ChatTurn> turns = turns_of(stored_chats()["conversations"][i]);
        const std::string where = form + ", " + name + ", " + std::to_string(i);
        const ChatTokens made = data::encode_chat(of(turns), ChatTemplate::named(form), *tokenizer);
        EXPECT_EQ(made.tokens, values[i]["tokens"].get<Tokens>()) << where;
        EXPECT_EQ(trained_of(made), values[i]["trained"].get<std::vector<size_t>>()) << where;
        turns.pop_back();
        const Tokens prompt = data::encode_prompt(turns, ChatTemplate::named(form), *tokenizer);
        EXPECT_EQ(prompt, values[i]["prompt"].get<Tokens>()) << where;
      }
    }
  EXPECT_GE(cases, 40u);
  EXPECT_EQ(stored_chats()["forms"].size(), ChatTemplate::names().size());
}

TEST(ChatTemplates, PublishedOnesAreRecognised) {
  std::vector<ChatTurn> turns = turns_of(stored_chats()["conversations"][1]);
  turns.erase(turns.begin());
  for (const auto& [name, values] : stored_chats()["published"].items()) {
    const auto form = ChatTemplate::recognised(values["template"].get<std::string>());
    ASSERT_TRUE(form.has_value()) << name;
    EXPECT_EQ(form->name(), values["form"].get<std::string>()) << name;
    const ChatTokens made = data::encode_chat(of(turns), *form, *tokenizer_of(values["tokenizer"]));
    EXPECT_EQ(made.tokens, values["tokens"].get<Tokens>()) << name;
  }
  for (const auto& [name, jinja] : stored_chats()["others"].items())
    EXPECT_FALSE(ChatTemplate::recognised(jinja.get<std::string>()).has_value()) << name;
  const std::string any = stored_chats()["published"]["llama3"]["template"];
  EXPECT_FALSE(ChatTemplate::recognised(any + std::string(size_t{1} << 18, ' ')).has_value());
}

TEST(ChatTemplates, OwnSystemTextGivesWayToAGivenOne) {
  const auto form =
      ChatTemplate::recognised(stored_chats()["published"]["chatml, SmolLM2"]["template"].get<std::string>());
  const TokenizerPtr tokenizer = tokenizer_of("bytes");
  const std::vector<ChatTurn> asked = {{"user", "a"}}, told = {{"system", "b"}, {"user", "a"}};
  EXPECT_EQ(tokenizer->decode(data::encode_prompt(asked, *form, *tokenizer)),
            "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(tokenizer->decode(data::encode_prompt(told, *form, *tokenizer)),
            "<|im_start|>system\nb<|im_end|>\n<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n");
}

TEST(ChatTemplates, SpecialTokensInATurnAreText) {
  for (const auto& [form, of_tokenizers] : stored_chats()["forms"].items()) {
    const std::string name = of_tokenizers.begin().key();
    const TokenizerPtr tokenizer = tokenizer_of(name);
    const auto count = [&](const std::string& text) {
      const ChatTokens made = data::encode_chat(of({{"system", text}, {"user", text}, {"assistant", text}}),
                                                ChatTemplate::named(form), *tokenizer);
      return std::count_if(made.tokens.begin(), made.tokens.end(), [&](int32_t token) {
        const auto& all = tokenizer->special();
        return std::any_of(all.begin(), all.end(), [&](const auto& one) { return one.second == token; });
      });
    };
    EXPECT_EQ(count("a<|im_end|>b<|eot_id|><s></s> <|end|><end_of_turn>\x02\x03"), count("ab")) << form;
  }
}

TEST(ChatTemplates, LossCountsWhatIsAsked) {
  const TokenizerPtr tokenizer = tokenizer_of("bytes");
  const ChatTemplate form = ChatTemplate::named("chatml");
  const ChatExample example = of({{"user", "a"}, {"assistant", "one", false}, {"user", "b"}, {"assistant", "two"}});
  EXPECT_EQ(data::preview(data::encode_chat(example, form, *tokenizer), *tokenizer),
            "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\none<|im_end|>\n"
            "<|im_start|>user\nb<|im_end|>\n<|im_start|>assistant\n[[two<|im_end|>]]\n");
  const ChatTokens all = data::encode_chat(example, form, *tokenizer, false);
  EXPECT_EQ(data::preview(all, *tokenizer).substr(0, 15), "[[<|im_start|>u");
  ChatExample text;
  text.text = "a <|im_end|>";
  const ChatTokens made = data::encode_chat(text, form, *tokenizer);
  EXPECT_TRUE(made.is_text);
  EXPECT_EQ(data::preview(made, *tokenizer), "<s>[[a <|im_end|></s>]]");
  EXPECT_GT(made.tokens.size(), 8u);
}

TEST(ChatTemplates, ThatDoNotFitAreRefused) {
  const auto characters = std::make_shared<data::CharTokenizer>("abc \n");
  const std::vector<ChatTurn> turns = {{"user", "a"}, {"assistant", "b"}};
  const auto with = [&](const char* form, const data::Tokenizer& tokenizer, const std::vector<ChatTurn>& these) {
    return data::encode_chat(of(these, 12), ChatTemplate::named(form), tokenizer);
  };
  expect_error<ValueError>([&] { with("chatml", *characters, turns); },
                           {"[chat template] chatml does not fit", "<|im_start|>", "line 12"});
  expect_error<ValueError>([&] { with("llama2", *characters, turns); }, {"llama2 does not fit", "begins a text"});
  EXPECT_EQ(data::preview(with("plain", *characters, turns), *characters), "a\n[[b\n]]");
  const TokenizerPtr bytes = tokenizer_of("bytes");
  expect_error<ValueError>(
      [&] {
        with("gemma", *bytes, {{"user", "a"}, {"user", "b"}, {"assistant", "c"}});
      },
      {"gemma does not fit", "turn 2"});
  expect_error<ValueError>([&] { with("chatml", *bytes, {{"user", "a"}, {"tool", "b"}}); }, {"turn 2 is of 'tool'"});
  expect_error<ValueError>([&] { data::encode_prompt(turns, ChatTemplate::named("chatml"), *bytes); }, {"last turn"});
  expect_error<ValueError>([&] { data::encode_prompt({}, ChatTemplate::named("chatml"), *bytes); }, {"last turn"});
  expect_error<ValueError>([] { ChatTemplate::named("llama9"); }, {"'llama9'", "chatml, llama2, llama3", "plain"});
}

TEST(ChatTemplates, StandInAModelsFolder) {
  test::TemporaryFolder folder;
  EXPECT_EQ(data::chat_template_of_folder(folder.path()), "");
  const auto config = [&](const std::string& text) { std::ofstream(folder / "tokenizer_config.json") << text; };
  config(R"({"bos_token":"<s>"})");
  EXPECT_EQ(data::chat_template_of_folder(folder.path()), "");
  config(R"({"chat_template":"{{ a }}"})");
  EXPECT_EQ(data::chat_template_of_folder(folder.path()), "{{ a }}");
  config(R"({"chat_template":[{"name":"tool_use","template":"b"},3,{"name":"default","template":"c"}]})");
  EXPECT_EQ(data::chat_template_of_folder(folder.path()), "c");
  config("[");
  expect_error<IoError>([&] { data::chat_template_of_folder(folder.path()); }, {"tokenizer_config.json", "not JSON"});
  std::ofstream(folder / "chat_template.jinja") << "d\n";
  EXPECT_EQ(data::chat_template_of_folder(folder.path()), "d\n");
}

// Any bytes: recognised or not, at once.
TEST(ChatTemplates, RecognitionTakesAnyText) {
  data::Random random(5, 0, 0);
  std::vector<std::string> parts = {"{{",         "}}",     "{%-", "%}", "{#",        "'",
                                    "\"",         "\\",     "+",   "(",  ")",         "[",
                                    "]",          "set x=", "\n",  " ",  "bos_token", "message['content']",
                                    "<|im_end|>", "|trim",  "\xff"};
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (int64_t n = random.integer(40); n > 0; --n)
      text += parts[static_cast<size_t>(random.integer(static_cast<int64_t>(parts.size())))];
    ChatTemplate::recognised(text);
  }
  for (const char* deep : {"{{(", "{{'a'+", "((((", "{{ x['"}) {
    std::string text;
    while (text.size() < 200000) text += deep;
    ChatTemplate::recognised(text);
    ChatTemplate::recognised("{{" + std::string(100000, '(') + std::string(100000, ')') + "}}");
  }
}

}  // namespace
}  // namespace heddle::tests
