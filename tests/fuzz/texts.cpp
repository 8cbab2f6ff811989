// Readers of texts: JSON, tokenizers, preprocessing, configurations, transforms, Unicode.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/data/chat.h"
#include "heddle/data/chat_rows.h"
#include "heddle/data/chat_template.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/preprocess.h"
#include "heddle/data/table.h"
#include "heddle/data/text.h"
#include "heddle/data/tokenizer.h"
#include "heddle/data/transforms.h"
#include "heddle/data/unicode.h"
#include "heddle/data/words.h"
#include "heddle/train/config.h"
#include "heddle/train/toml.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"

namespace heddle::fuzz {
namespace {

// Copying, printing and parsing what was printed.
void json(Bytes input) {
  const nlohmann::json value = parse_json(text_of(input), "[fuzz] input");
  const nlohmann::ordered_json copy = value;
  require(parse_json(copy.dump(), "[fuzz] copy") == value, "json: the copy differs");
}

void use(const data::Tokenizer& tokenizer) {
  const std::string text = "to be or not to be <|endoftext|> \xc3\xa4 \xff";
  const bool keeps_text = dynamic_cast<const data::PipelineTokenizer*>(&tokenizer) == nullptr;  // others normalise
  try {
    require(tokenizer.decode(tokenizer.encode(text)) == text || !keeps_text, "tokenizer: the text differs");
  } catch (const ValueError&) {  // a character that it does not know
  }
  require(data::parse_tokenizer(tokenizer.str())->size() == tokenizer.size(), "tokenizer: the copy differs");
}

void tokenizer(Bytes input) { use(*data::parse_tokenizer(text_of(input), "input")); }

// Tokens of a text, or why there are none.
std::vector<int32_t> tokens_or_none(const data::Tokenizer& tokenizer, std::string_view text, data::SpecialTokens how) {
  try {
    const std::vector<int32_t> tokens = tokenizer.encode(text, how);
    tokenizer.decode(tokens);
    return tokens;
  } catch (const ValueError&) {
    return {-1};
  }
}

// A tokenizer.json of others; its copy makes the same tokens.
void tokenizer_json(Bytes input) {
  const std::string text = "to be  or not\n\nTO be 1234 <|a|> x<b> \xe2\x96\x81 e\xcc\x81 \xc3\xa4 \xff";
  const auto made = data::parse_tokenizer(text_of(input), "input");
  const auto copy = data::parse_tokenizer(made->str(), "copy");
  require(copy->str() == made->str(), "tokenizer_json: the copy's text differs");
  for (const auto how : {data::SpecialTokens::as_text, data::SpecialTokens::recognised}) {
    require(tokens_or_none(*made, text, how) == tokens_or_none(*copy, text, how), "tokenizer_json: the copy differs");
    tokens_or_none(*made, text_of(input), how);
  }
  data::StreamedText stream(*made);
  for (int32_t token = 0; token < std::min<int64_t>(made->size(), 100); ++token) stream.add(token);
  stream.finish();
}

// Lines of conversations and of preferences; what is read becomes tokens and rows.
void chat(Bytes input) {
  static const auto bytes = data::BpeTokenizer::train("to be", {.vocabulary = 257});
  try {
    data::parse_preferences(text_of(input), "input.jsonl", {.skip_bad = true});
  } catch (const IoError&) {
  }
  const data::ChatFile file = data::parse_chat_file(text_of(input), "input.jsonl", {.skip_bad = true});
  for (const std::string_view name : {"alpaca", "plain"}) {  // the forms without special tokens
    const auto form = data::ChatTemplate::named(name);
    std::vector<data::ChatTokens> tokens;
    for (const data::ChatExample& example : file.examples) {
      tokens.push_back(data::encode_chat(example, form, *bytes));
      data::preview(tokens.back(), *bytes);
    }
    data::chat_rows(tokens, {.length = 64});
  }
}

void chat_template(Bytes input) { data::ChatTemplate::recognised(text_of(input)); }
std::vector<std::string> chat_seeds() {
  return {R"({"messages":[{"role":"system","content":"s"},{"role":"user","content":"a"},)"
          R"({"role":"assistant","content":"b","weight":0}]})",
          R"([{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}])",
          R"({"instruction":"a","input":"i","output":"b"})", R"({"prompt":"q","chosen":"a","rejected":"b"})"};
}
std::vector<std::string> chat_template_seeds() {
  return {
      "{% for m in messages %}{{'<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' + '\n'}}{% endfor "
      "%}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
      "{{ bos_token }}{%- set content = \"[INST] \" + (message.content | trim) + \" [/INST]\" -%}{# x #}"};
}

// vocab.json and merges.txt of 256 bytes and what the input adds: entries up to a NUL, merges behind it.
void merges(Bytes input) {
  const std::string_view all = text_of(input);
  const size_t cut = std::min(all.find('\0'), all.size());
  const std::string bytes = byte_vocabulary(), vocab_path = scratch_folder() + "/vocab.json";
  for (const std::string& vocabulary :
       {bytes.substr(0, bytes.size() - 1) + std::string(all.substr(0, cut)) + "}", std::string(all.substr(0, cut))}) {
    write_scratch(vocab_path, vocabulary);
    try {
      const auto made = data::BpeTokenizer::load(vocab_path, file_of(all.substr(std::min(cut + 1, all.size()))));
      use(*made);
      made->encode(all, data::SpecialTokens::recognised);
    } catch (const IoError&) {
    }
  }
}

void preprocessing(Bytes input) {
  const auto first = data::Preprocessing::parse(text_of(input), "input");
  const auto again = data::Preprocessing::parse(first.str(), "copy");
  require(again.str() == first.str(), "preprocessing: the copy differs");
}

void table_code(Bytes input) {
  const std::string first = data::TableCode::parse(text_of(input), "input").str();
  require(data::TableCode::parse(first, "copy").str() == first, "table_code: the copy differs");
}

void transform(Bytes input) { data::parse_transform(std::string(text_of(input))); }

void toml(Bytes input) {
  for (const train::TomlEntry& entry : train::read_toml(text_of(input), "input")) train::toml_text(entry.value);
  train::Config config;
  config.parse(text_of(input), "input");
  train::Config copy;
  copy.parse(config.str(), "copy");
  require(copy.str() == config.str(), "toml: the copy differs");
}

// "key=value", as on a command line.
void config_value(Bytes input) {
  const std::string_view text = text_of(input);
  const size_t equals = std::min(text.find('='), text.size());
  train::Config config;
  config.set(text.substr(0, equals), text.substr(std::min(equals + 1, text.size())));
}

void numbers(Bytes input) {
  const std::string_view text = text_of(input);
  parse_number<int64_t>(text);
  parse_number<uint64_t>(text, 16);
  parse_number<double>(text);
  parse_hex_float(text);
}

void words(Bytes input) {
  const std::string_view text = text_of(input);
  std::string joined;
  for (const auto rule : {data::WordRule::gpt2, data::WordRule::llama3, data::WordRule::qwen2, data::WordRule::gpt4o,
                          data::WordRule::tekken}) {
    joined.clear();
    data::for_each_word(text, rule, [&](std::string_view word) { joined += word; });
    require(joined == text, "words: the text differs");
  }
  require(data::composed(data::composed(text)) == data::composed(text), "composed() is not what it says");
  data::whole_characters(text);
  require(data::valid_utf8(data::valid_utf8(text)) == data::valid_utf8(text), "valid_utf8 is not what it says");
  data::read_text(file_of(input));
  const data::CharTokenizer characters(text);
  require(characters.decode(characters.encode(text)) == text, "characters: the text differs");
}

}  // namespace

std::vector<Target> text_targets() {
  return {
      {"json",
       json,
       json_seeds,
       {"[", "{\"a\":", "]", "}", "\\u0041", "\\ud800", "1e400", "-0.0", "18446744073709551615", "null", "true", "\""}},
      {"tokenizer",
       tokenizer,
       tokenizer_seeds,
       {"\"type\":", "\"bpe\"", "\"characters\"", "\"vocab\":{", "\"merges\":[", "\"a b\"", "256", "4294967296",
        "\xc4\xa0"}},
      {"tokenizer_json",
       tokenizer_json,
       tokenizer_json_seeds,
       {"\"type\":\"ByteLevel\"", "\"type\":\"Metaspace\"", "\"type\":\"Split\"", "\"type\":\"Replace\"",
        "\"type\":\"NFC\"", "\"type\":\"Digits\"", "\"String\":\"o\"", "\"MergedWithNext\"", "\"normalized\":true",
        "\"special\":false", "\"rstrip\":true", "\"ignore_merges\":true", "\"byte_fallback\":true", "null",
        "\xe2\x96\x81", "[\"o\",\"r\"]", "99999"}},
      {"chat",
       chat,
       chat_seeds,
       {"\"messages\":[", "\"role\":\"user\"", "\"content\":", "\"from\":\"gpt\"", "\"text\":\"a\"", "null", "\n",
        "{}"}},
      {"chat_template",
       chat_template,
       chat_template_seeds,
       {"{{", "}}", "{%", "%}", "{#", "#}", "'", "\"", "['content']", "message.role", "|trim", "bos_token", "\\n", "(",
        ")"}},
      {"merges", merges, merges_seeds, {",\"ab\":256", "\na b", "#version", "\"<|x|>\"", "\xc4\xa0", "  ", "\r\n"}},
      {"preprocessing",
       preprocessing,
       preprocessing_seeds,
       {"\"transforms\":[", "\"mean\":[", "\"deviation\":[", "\"classes\":[", "\"tokenizer\":", "1e308", "0.0",
        "\"random_crop 4 4 1\""}},
      {"table_code",
       table_code,
       table_code_seeds,
       {"\"columns\":[", "\"target\":{", "\"categories\":[", "\"mean\":", "\"deviation\":0", "1e308", "null"}},
      {"transform",
       transform,
       transform_seeds,
       {"to_float", "normalise", "resize", "centre_square", "random_crop", "random_resized_crop", "cutout", " 1",
        " 1e300", " nan", " -1", " 0x10", " 1073741824"}},
      {"toml",
       toml,
       toml_seeds,
       {"[", "]", "[[", "a.a.", "\"\"\"", "'''", "{", "}", "= ", "1979-05-27", "0x", "inf", "\n[training]\n",
        "batch = ", "\\u0041", "#"}},
      {"config_value",
       config_value,
       config_value_seeds,
       {"optimizer.lr", "training.", "GiB", "1e300", ",", "-1", "nan", "true", "model."}},
      {"numbers", numbers, numbers_seeds, {"0x1.8p+1", "inf", "nan", "-", "1e", "999999999999", "."}},
      {"words", words, words_seeds, {"'s", "  ", "\n\n", "\xe3\x80\x80", "\xf0\x9f\x98\x80", "\xff", "\xc3", "'ll"}},
  };
}

}  // namespace heddle::fuzz
