#include "heddle/nn/models/llama_gguf.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/io/file_tensor.h"

namespace heddle::nn {
namespace {

constexpr int64_t most_layers_named = 10'000;

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw IoError(fmt::format("[gguf] {}: {}", path, what));
}

// A tensor that a Llama has: its name here, and the shape that the options want.
struct Wanted {
  std::string name;
  Shape shape;
  int64_t heads = 0;  // of queries or keys, whose rows stand in another order; 0: others
};

// By Hugging Face's names.
std::map<std::string, Wanted> wanted(const LlamaOptions& o) {
  const int64_t keys = o.width / o.heads * o.key_heads;
  std::map<std::string, Wanted> all;
  all["model.embed_tokens.weight"] = {"token_embd.weight", {o.vocabulary, o.width}};
  all["model.norm.weight"] = {"output_norm.weight", {o.width}};
  if (!o.tied) all["lm_head.weight"] = {"output.weight", {o.vocabulary, o.width}};
  for (int64_t i = 0; i < o.layers; ++i) {
    const auto add = [&](const char* ours, const char* theirs, const Shape& shape, int64_t heads = 0) {
      all[fmt::format("model.layers.{}.{}.weight", i, ours)] = {fmt::format("blk.{}.{}.weight", i, theirs), shape,
                                                                heads};
    };
    add("input_layernorm", "attn_norm", {o.width});
    add("post_attention_layernorm", "ffn_norm", {o.width});
    add("self_attn.q_proj", "attn_q", {o.width, o.width}, o.heads);
    add("self_attn.k_proj", "attn_k", {keys, o.width}, o.key_heads);
    add("self_attn.v_proj", "attn_v", {keys, o.width});
    add("self_attn.o_proj", "attn_output", {o.width, o.width});
    add("mlp.gate_proj", "ffn_gate", {o.hidden, o.width});
    add("mlp.up_proj", "ffn_up", {o.hidden, o.width});
    add("mlp.down_proj", "ffn_down", {o.width, o.hidden});
  }
  return all;
}

class OptionsReader {
 public:
  OptionsReader(const Gguf& file, const std::string& path) : file_(file), path_(path) {}

  LlamaOptions run() {
    const std::string_view architecture = file_.at("general.architecture").as_text();
    if (architecture != "llama")
      fail(path_, fmt::format("the architecture is '{}'; read is llama", shortened(architecture)));
    LlamaOptions o;
    o.context = size("llama.context_length");
    o.layers = size("llama.block_count", most_layers_named);
    o.heads = size("llama.attention.head_count");
    o.key_heads =
        file_.find("llama.attention.head_count_kv") == nullptr ? o.heads : size("llama.attention.head_count_kv");
    o.width = size("llama.embedding_length");
    o.hidden = size("llama.feed_forward_length");
    o.eps = file_.at("llama.attention.layer_norm_rms_epsilon").as_number();
    if (const GgufValue* base = file_.find("llama.rope.freq_base")) o.rope_base = base->as_number();
    o.tied = file_.find_tensor("output.weight") == nullptr;
    const GgufTensor* embedding = file_.find_tensor("token_embd.weight");
    if (embedding == nullptr || embedding->shape.rank() != 2) fail(path_, "token_embd.weight is no matrix of it");
    o.vocabulary = embedding->shape[0];
    check(o);
    check_tensors(o);
    return o;
  }

 private:
  int64_t size(const char* key, int64_t most = std::numeric_limits<int32_t>::max()) const {
    const uint64_t value = file_.at(key).as_unsigned();
    if (value < 1 || value > static_cast<uint64_t>(most))
      fail(path_, fmt::format("{} is {}; expected 1 to {}", key, value, most));
    return static_cast<int64_t>(value);
  }

  void check(const LlamaOptions& o) const {
    if (o.width % o.heads != 0 || o.heads % o.key_heads != 0 || o.width / o.heads % 2 != 0)
      fail(path_, fmt::format("{} heads and {} of keys do not fit a width of {}", o.heads, o.key_heads, o.width));
    for (const char* key :
         {"llama.rope.dimension_count", "llama.attention.key_length", "llama.attention.value_length"}) {
      if (file_.find(key) != nullptr && size(key) != o.width / o.heads)
        fail(path_, fmt::format("{} is {}; read are heads of width / heads, {}", key, size(key), o.width / o.heads));
    }
    if (const GgufValue* scaling = file_.find("llama.rope.scaling.type"); scaling && scaling->as_text() != "none")
      fail(path_, fmt::format("rotary positions are scaled ('{}'), which is not read", shortened(scaling->as_text())));
    if (const GgufValue* experts = file_.find("llama.expert_count"); experts && experts->as_unsigned() > 0)
      fail(path_, "it is a mixture of experts, which is not read");
  }

  void check_tensors(const LlamaOptions& o) const {
    std::vector<std::string> missing, other;
    size_t found = 0;
    for (const auto& [ours, want] : wanted(o)) {
      const GgufTensor* tensor = file_.find_tensor(want.name);
      if (tensor == nullptr) {
        missing.push_back(want.name);
        continue;
      }
      ++found;
      if (tensor->shape != want.shape)
        other.push_back(fmt::format("{} {} instead of {}", want.name, tensor->shape.str(), want.shape.str()));
    }
    if (!missing.empty()) fail(path_, fmt::format("tensors are missing: {}", fmt::join(missing, ", ")));
    if (!other.empty()) fail(path_, fmt::format("tensors do not fit the metadata: {}", fmt::join(other, "; ")));
    if (found == file_.tensors().size()) return;
    fail(path_, fmt::format("it has tensors that no Llama has: {}", fmt::join(foreign(o), ", ")));
  }

  std::vector<std::string> foreign(const LlamaOptions& o) const {
    std::vector<std::string> names, known;
    for (const auto& [ours, want] : wanted(o)) known.push_back(want.name);
    std::sort(known.begin(), known.end());
    for (const GgufTensor& tensor : file_.tensors()) {
      if (!std::binary_search(known.begin(), known.end(), tensor.name)) names.push_back(shortened(tensor.name));
    }
    return names;
  }

  const Gguf& file_;
  const std::string& path_;
};

// Rows of a head: row 2 i + s of the file is row s * size / 2 + i.
std::vector<uint8_t> in_halves(std::span<const uint8_t> rows, int64_t count, int64_t heads) {
  const size_t bytes = rows.size() / static_cast<size_t>(count);
  const int64_t size = count / heads;
  std::vector<uint8_t> turned(rows.size());
  for (int64_t to = 0; to < count; ++to) {
    const int64_t head = to / size, s = to % size / (size / 2), i = to % (size / 2);
    const auto from = static_cast<size_t>(head * size + 2 * i + s);
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(from * bytes), bytes,
                turned.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(to) * bytes));
  }
  return turned;
}

DType dtype_of(GgmlType type) {
  if (type == GgmlType::f16) return DType::f16;
  return type == GgmlType::bf16 ? DType::bf16 : DType::f32;
}

Weight weight_of(const Gguf& file, const GgufTensor& tensor, int64_t heads, DeviceContext& device, GgufWeights how) {
  std::span<const uint8_t> bytes = tensor.bytes;
  std::vector<uint8_t> turned;
  if (heads > 0) bytes = turned = in_halves(bytes, tensor.shape[0], heads);
  const bool blocks = block_of(tensor.type).elements > 1;
  if (how == GgufWeights::unpacked) {
    std::vector<float> values(static_cast<size_t>(tensor.shape.numel()));
    dequantise(tensor.type, bytes, values);
    return {Tensor::from_vector(values, tensor.shape, &device), {}};
  }
  const DType dtype = blocks ? DType::u8 : dtype_of(tensor.type);
  const Shape shape = blocks ? packed_shape(tensor.shape, tensor.type) : tensor.shape;
  const auto packed = blocks ? std::optional(tensor.type) : std::nullopt;
  const bool rounds = how == GgufWeights::rounded;
  if (heads == 0) return {tensor_of_file(file.file(), bytes, dtype, shape, device), packed, rounds};
  const auto count = static_cast<size_t>(shape.numel());
  return {Tensor::from_bytes(bytes.data(), count, dtype, shape, &device), packed, rounds};
}

}  // namespace

LlamaOptions llama_options(const Gguf& file, const std::string& path) {
  try {
    return OptionsReader(file, path).run();
  } catch (const ValueError& error) {  // a value of another type
    fail(path, error.what());
  }
}

Llama load_llama(const Gguf& file, const std::string& path, DeviceRef device, GgufWeights how) {
  const LlamaOptions options = llama_options(file, path);
  const std::map<std::string, Wanted> names = wanted(options);
  DeviceContext& where = device.context();
  Llama model(
      options,
      [&](const std::string& name, const Shape&) {
        const Wanted& want = names.at(name);
        return weight_of(file, *file.find_tensor(want.name), want.heads, where, how);
      },
      device);
  model.eval();
  return model;
}

}  // namespace heddle::nn
