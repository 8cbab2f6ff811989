#include "tests/support/sparse_llama.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "heddle/core/base/integers.h"
#include "heddle/core/base/shape.h"
#include "heddle/nn/models/llama_gguf_options.h"
#include "heddle/nn/models/llama_weights.h"

namespace heddle::test {
namespace {

constexpr uint64_t alignment = 32;

// Little-endian, as GGUF has it.
class Front {
 public:
  template <class T>
  Front& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Front& words(std::string_view text) {
    number(static_cast<uint64_t>(text.size()));
    text_ += text;
    return *this;
  }
  void size(const char* key, int64_t value) { words(key).number(uint32_t{4}).number(static_cast<uint32_t>(value)); }
  void real(const char* key, float value) { words(key).number(uint32_t{6}).number(value); }
  void text(const char* key, const char* value) { words(key).number(uint32_t{8}).words(value); }
  std::string padded() const { return text_ + std::string(round_up(text_.size(), alignment) - text_.size(), '\0'); }

 private:
  std::string text_ = "GGUF";
};

void add_metadata(Front& front, const nn::LlamaOptions& o) {
  front.text("general.architecture", "llama");
  front.size("llama.context_length", o.context);
  front.size("llama.block_count", o.layers);
  front.size("llama.attention.head_count", o.heads);
  front.size("llama.attention.head_count_kv", o.key_heads);
  front.size("llama.embedding_length", o.width);
  front.size("llama.feed_forward_length", o.hidden);
  front.real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
}

// What it takes, behind `at` bytes of others.
uint64_t add_tensor(Front& front, const std::string& name, const Shape& shape, GgmlType type, uint64_t at) {
  front.words(name).number(static_cast<uint32_t>(shape.rank()));
  for (int64_t axis = shape.rank() - 1; axis >= 0; --axis) front.number(static_cast<uint64_t>(shape[axis]));
  front.number(static_cast<uint32_t>(type)).number(at);
  const GgmlBlock& block = block_of(type);
  return static_cast<uint64_t>(shape.numel()) / block.elements * block.bytes;
}

}  // namespace

nn::LlamaOptions llama_7b() {
  return {
      .vocabulary = 32000, .context = 4096, .layers = 32, .heads = 32, .key_heads = 32, .width = 4096, .hidden = 11008};
}

void write_sparse_llama(const std::string& path, const nn::LlamaOptions& o, GgmlType type) {
  const auto weights = nn::stored_weights(o, false);
  constexpr uint64_t entries = 8;
  Front front;
  front.number(uint32_t{3}).number(static_cast<uint64_t>(weights.size())).number(entries);
  add_metadata(front, o);
  uint64_t at = 0;
  for (const auto& [name, stored] : weights) {
    const GgmlType own = stored.shape.rank() == 1 ? GgmlType::f32 : type;
    at += round_up(add_tensor(front, nn::gguf_name(stored.name, o), stored.shape, own, at), alignment);
  }
  const std::string bytes = front.padded();
  if (!(std::ofstream(path, std::ios::binary) << bytes)) throw std::runtime_error("cannot write " + path);
  std::filesystem::resize_file(path, bytes.size() + at);
}

}  // namespace heddle::test
