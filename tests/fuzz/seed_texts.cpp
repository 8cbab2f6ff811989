// JSON, tokenizers, configurations and other texts.
#include <nlohmann/json.hpp>

#include "heddle/data/preprocess.h"
#include "heddle/data/table.h"
#include "heddle/data/tokenizer.h"
#include "heddle/train/config.h"
#include "tests/fuzz/seed_files.h"

namespace heddle::fuzz {
namespace {

using namespace std::string_literals;  // texts with NULs in them

std::string small_tokenizer() {
  return data::BpeTokenizer::train("to be or not to be, that is the question", {.vocabulary = 262})->str();
}

}  // namespace

Seeds json_seeds() {
  return {R"({"a":[1,-2.5e3,true,null,"x\n\u00e4"],"b":{}})", "[[[[]]]]", "\"\"", "12345678901234567890",
          "{\"a\":1,\"a\":2}"};
}

Seeds tokenizer_seeds() {
  return {small_tokenizer(), R"({"type":"characters","characters":"abcä "})",
          R"({"type":"bpe","vocab":{"a":0},"merges":[]})"};
}

Seeds tokenizer_json_seeds() {
  const std::string added =
      R"("added_tokens":[{"id":5,"content":"<|a|>","special":true,"rstrip":true},{"id":6,"content":"<b>"}],)";
  const std::string pairs =
      R"("model":{"type":"BPE","unk_token":"o","vocab":{"t":0,"o":1,"to":2,"r":3,"or":4},"merges":["t o",["o","r"]]})";
  const std::string ends = R"("post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<|a|>"}},)"
                           R"({"Sequence":{"id":"A"}}],"special_tokens":{"<|a|>":{"ids":[5]}}},)";
  return {
      "{" + added + ends +
          R"("normalizer":{"type":"NFC"},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},)"
          R"({"type":"ByteLevel"}]},"decoder":{"type":"ByteLevel"},)" +
          pairs + "}",
      "{" + added +
          R"("normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"_"},{"type":"Replace",)"
          R"("pattern":{"String":" "},"content":"_"}]},"pre_tokenizer":{"type":"Split","pattern":{"String":"_"},)"
          R"("behavior":"MergedWithPrevious"},"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":)"
          R"({"String":"_"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ",)"
          R"("start":1,"stop":0}]},)" +
          pairs + "}",
      R"({"pre_tokenizer":{"type":"Metaspace","replacement":"_"},"decoder":{"type":"Metaspace","replacement":"_"},)"
      R"("model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["_",-1.5],["to",-2],["o",-3],["_to",-2.5]]}})"};
}

std::string byte_vocabulary() {
  return nlohmann::ordered_json::parse(
             data::BpeTokenizer::train("", {.vocabulary = 256, .special = {}})->str())["vocab"]
      .dump();
}

Seeds merges_seeds() {
  return {",\"ab\":256,\"<|x|>\":257\0#version: 0.2\na b\n"s, ",\"ab\":256,\"abab\":257\0a b\r\nab ab\r\n"s,
          "{\"a\":0}\0a a\n"s};
}

Seeds preprocessing_seeds() {
  data::Preprocessing images;
  images.transforms = {"to_float", "random_crop 4 4 1", "random_flip 0.5"};
  images.statistics = {{0.5, 0.25, 0.125}, {1, 2, 3}};
  images.classes = {"cat", "dog"};
  data::Preprocessing text;
  text.tokenizer = data::parse_tokenizer(small_tokenizer());
  return {images.str(), text.str()};
}

Seeds table_code_seeds() {
  data::TableCode code;
  code.columns = {{.name = "size", .mean = 0.5, .deviation = 2, .can_miss = true},
                  {.name = "town", .is_number = false, .categories = {"Bonn", "Ulm"}}};
  code.target = {.name = "kind", .classes = {"a", "b"}};
  return {code.str(), R"({"columns":[],"target":{"name":"y","classes":[],"mean":0.1,"deviation":1e-3}})"};
}

Seeds transform_seeds() {
  return {
      "to_float", "normalise 0.5 0.25", "resize 8 9", "random_resized_crop 8 8 0.1 1 1.3", "random_colour 0.1 0.2 0.3",
      "cutout 4", "random_crop 4 4 1"};
}

Seeds toml_seeds() {
  return {train::Config().str(),
          "[training]\nbatch = 8\n[optimizer]\nlr = 1e-3\n[model]\nwidths = [1, 2]\nx.y = 'text'\n\"a b\" = "
          "\"\"\"two\nlines\"\"\"\n",
          "a = {b = [1, {c = 2}]}\n[[t]]\n"};
}

Seeds config_value_seeds() {
  return {"optimizer.lr=3e-4", "memory.budget=512MiB", "schedule.milestones=1000,2000",
          "model.width=7",     "training.batch=8",     "run.recipe=mnist-mlp"};
}

Seeds numbers_seeds() { return {"1.5", "-0x1.8p-1", "ff", "9223372036854775807", "inf"}; }

Seeds words_seeds() { return {"it's  a test, they'll say: 12 times \n\n\xe3\x80\x80\xc3\xa4", "\xff\xfe plain", "a"}; }

}  // namespace heddle::fuzz
