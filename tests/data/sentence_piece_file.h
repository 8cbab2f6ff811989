// A SentencePiece model as a GGUF file has it: the one of tokenizer_json_values.json, with what sentencepiece itself
// makes of texts. Thread safety: values.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "heddle/data/tokenizer_gguf.h"
#include "heddle/io/write_gguf.h"

namespace heddle::test {

// A test changes what it wants otherwise before read().
struct SentencePieceFile {
  std::vector<std::string> pieces = stored()["pieces"];
  std::vector<float> scores = stored()["scores"];
  std::vector<int32_t> types = stored()["types"];
  std::map<std::string, bool> flags;
  std::map<std::string, uint32_t> numbers;

  static const nlohmann::json& stored() {
    static const nlohmann::json values =
        nlohmann::json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/data/tokenizer_json_values.json"));
    return values["sentencepiece"];
  }
  data::GgufTokenizer read() const {
    GgufWriter writer;
    writer.add("tokenizer.ggml.model", "llama");
    writer.add("tokenizer.ggml.pre", "default");
    writer.add("tokenizer.ggml.tokens", std::span<const std::string>(pieces));
    writer.add("tokenizer.ggml.scores", std::span<const float>(scores));
    writer.add("tokenizer.ggml.token_type", std::span<const int32_t>(types));
    for (const auto& [key, value] : flags) writer.add(key, value);
    for (const auto& [key, value] : numbers) writer.add(key, value);
    return data::tokenizer_of(Gguf::of(FileBytes::of(writer.bytes()), "tiny"), "tiny");
  }
};

}  // namespace heddle::test
