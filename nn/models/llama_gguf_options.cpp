#include "heddle/nn/models/llama_gguf_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw IoError(fmt::format("[gguf] {}: {}", path, what));
}

// Values under an architecture's keys: "llama.block_count".
class Metadata {
 public:
  Metadata(const Gguf& file, const std::string& path, std::string_view architecture)
      : file_(file), path_(path), architecture_(architecture) {}

  std::string key(const char* name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(const char* name) const { return file_.find(key(name)) != nullptr; }
  int64_t size(const char* name, std::optional<int64_t> otherwise = {}, int64_t most = most_size) const {
    if (otherwise && !has(name)) return *otherwise;
    const uint64_t value = file_.at(key(name)).as_unsigned();
    if (value < 1 || value > static_cast<uint64_t>(most)) {
      fail(path_, fmt::format("{} is {}; expected 1 to {}", key(name), value, most));
    }
    return static_cast<int64_t>(value);
  }
  double number(const char* name, std::optional<double> otherwise = {}) const {
    return otherwise && !has(name) ? *otherwise : file_.at(key(name)).as_number();
  }
  std::string text(const char* name, const std::string& otherwise) const {
    return has(name) ? std::string(file_.at(key(name)).as_text()) : otherwise;
  }
  const Gguf& file() const { return file_; }
  const std::string& path() const { return path_; }

 private:
  const Gguf& file_;
  const std::string& path_;
  std::string architecture_;
};

void read_sizes(const Metadata& m, LlamaOptions& o) {
  o.context = m.size("context_length");
  o.layers = m.size("block_count", {}, most_layers);
  o.heads = m.size("attention.head_count");
  o.key_heads = m.size("attention.head_count_kv", o.heads);
  o.width = m.size("embedding_length");
  o.hidden = m.size("feed_forward_length");
  o.eps = m.number("attention.layer_norm_rms_epsilon");
  o.tied = m.file().find_tensor("output.weight") == nullptr;
  const GgufTensor* embedding = m.file().find_tensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.rank() != 2) fail(m.path(), "token_embd.weight is no matrix of it");
  o.vocabulary = embedding->shape[0];
}

void read_heads(const Metadata& m, LlamaOptions& o) {
  const int64_t size = m.size("attention.key_length", o.width % o.heads == 0 ? o.width / o.heads : 0);
  if (size == 0 || o.heads % o.key_heads != 0 || size % 2 != 0)
    fail(m.path(), fmt::format("{} heads and {} of keys do not fit a width of {}", o.heads, o.key_heads, o.width));
  if (size != o.width / o.heads || o.width % o.heads != 0) o.head_size = size;
  if (const int64_t values = m.size("attention.value_length", size); values != size)
    fail(m.path(),
         fmt::format("{} is {}; read are heads of one size, {}", m.key("attention.value_length"), values, size));
}

void read_rope(const Metadata& m, LlamaOptions& o, bool paired) {
  o.rope_base = m.number("rope.freq_base", o.rope_base);
  const int64_t turned = m.size("rope.dimension_count", o.size_of_head());
  if (turned > o.size_of_head() || (paired && turned != o.size_of_head()))
    fail(m.path(), fmt::format("{} is {}; read are heads of width / heads, {}", m.key("rope.dimension_count"), turned,
                               o.size_of_head()));
  if (turned < o.size_of_head()) o.rope_size = turned;
  const auto pairs = static_cast<size_t>(turned / 2);
  const std::string scaling = m.text("rope.scaling.type", "none");
  if (scaling == "linear")
    o.rope_factors.assign(pairs, m.number("rope.scaling.factor"));
  else if (scaling != "none")
    fail(m.path(), fmt::format("rotary positions are scaled ('{}'), which is not read", shortened(scaling)));
  const GgufTensor* factors = m.file().find_tensor(gguf_rope_factors);
  if (factors == nullptr) return;
  if (factors->shape != Shape{turned / 2} || !o.rope_factors.empty())
    fail(m.path(), fmt::format("{} {} does not fit heads whose {} elements turn", gguf_rope_factors,
                               factors->shape.str(), turned));
  const std::vector<float> values = factors->dequantised();
  o.rope_factors.assign(values.begin(), values.end());
}

// Layer i has the window unless it is the last of each `pattern`. A window of 0 is none.
void read_window(const Metadata& m, LlamaOptions& o, int64_t usual, int64_t pattern) {
  constexpr const char* name = "attention.sliding_window";
  const bool none = m.has(name) ? m.file().at(m.key(name)).as_unsigned() == 0 : usual == 0;
  o.window = none ? 0 : m.size(name, usual);
  for (int64_t i = 0; o.window > 0 && i < o.layers && pattern > 1; ++i) o.windowed.push_back((i + 1) % pattern != 0);
}

void read_llama(const Metadata&, GgufLlama& made) { made.paired = true; }
void read_qwen2(const Metadata&, GgufLlama& made) { made.options.qkv_bias = true; }
void read_qwen3(const Metadata&, GgufLlama& made) { made.options.head_norms = true; }
void read_phi3(const Metadata& m, GgufLlama& made) {
  made.fused = true;
  read_window(m, made.options, 0, 1);
}

// The files' norm weights have the 1 of 1 + w in them. The largest Gemma scales scores by the width of a head, all
// others by the head's size.
void read_gemma(LlamaOptions& o, int64_t largest) {
  o.norms_behind = o.gelu = true;
  o.embedding_scale = std::sqrt(static_cast<double>(o.width));
  if (o.layers == largest) o.score_scale = 1 / std::sqrt(static_cast<double>(o.width / o.heads));
}
void read_gemma2(const Metadata& m, GgufLlama& made) {
  read_gemma(made.options, 46);
  made.options.score_cap = m.number("attn_logit_softcapping", 50.0);
  made.options.logit_cap = m.number("final_logit_softcapping", 30.0);
  read_window(m, made.options, 4096, 2);
}
void read_gemma3(const Metadata& m, GgufLlama& made) {
  read_gemma(made.options, 62);
  made.options.head_norms = true;
  made.options.logit_cap = m.number("final_logit_softcapping", 0.0);
  made.options.rope_base = m.number("rope.freq_base", 1e6);
  made.options.window_rope_base = m.number("rope.freq_base_swa", 1e4);
  read_window(m, made.options, 0, 6);
}

struct Architecture {
  const char* name;
  void (*read)(const Metadata& m, GgufLlama& made);
};
constexpr std::array architectures = {
    Architecture{"gemma2", read_gemma2}, Architecture{"gemma3", read_gemma3}, Architecture{"llama", read_llama},
    Architecture{"phi3", read_phi3},     Architecture{"qwen2", read_qwen2},   Architecture{"qwen3", read_qwen3},
};

const Architecture& architecture_of(const Gguf& file, const std::string& path) {
  const std::string_view name = file.at("general.architecture").as_text();
  const auto found = std::ranges::find_if(architectures, [&](const Architecture& row) { return name == row.name; });
  if (found != architectures.end()) return *found;
  std::vector<std::string_view> known;
  for (const Architecture& row : architectures) known.emplace_back(row.name);
  fail(path, fmt::format("the architecture is '{}'; read are {}", shortened(name), fmt::join(known, ", ")));
}

// Hugging Face's part of a layer, and the file's.
using Names = std::pair<std::string_view, std::string_view>;
constexpr std::array names = {
    Names{"input_layernorm", "attn_norm"},
    Names{"self_attn.q_proj", "attn_q"},
    Names{"self_attn.k_proj", "attn_k"},
    Names{"self_attn.v_proj", "attn_v"},
    Names{"self_attn.qkv_proj", "attn_qkv"},
    Names{"self_attn.o_proj", "attn_output"},
    Names{"self_attn.q_norm", "attn_q_norm"},
    Names{"self_attn.k_norm", "attn_k_norm"},
    Names{"mlp.gate_proj", "ffn_gate"},
    Names{"mlp.up_proj", "ffn_up"},
    Names{"mlp.gate_up_proj", "ffn_up"},
    Names{"mlp.down_proj", "ffn_down"},
    Names{"pre_feedforward_layernorm", "ffn_norm"},
    Names{"post_feedforward_layernorm", "post_ffw_norm"},
};

std::string_view name_in_file(std::string_view part, const LlamaOptions& o) {
  if (part == "post_attention_layernorm") return o.norms_behind ? "post_attention_norm" : "ffn_norm";
  const auto found = std::ranges::find_if(names, [&](const Names& row) { return row.first == part; });
  return found == names.end() ? std::string_view() : found->second;
}

}  // namespace

GgufLlama gguf_llama(const Gguf& file, const std::string& path) {
  const Architecture& architecture = architecture_of(file, path);
  const Metadata m(file, path, architecture.name);
  GgufLlama made;
  read_sizes(m, made.options);
  read_heads(m, made.options);
  checked(made.options);
  architecture.read(m, made);
  read_rope(m, made.options, made.paired);
  if (m.has("expert_count") && file.at(m.key("expert_count")).as_unsigned() > 0)
    fail(path, "it is a mixture of experts, which is not read");
  checked(made.options);
  return made;
}

std::string gguf_name(const std::string& stored, const LlamaOptions& options) {
  if (stored == "model.embed_tokens.weight") return "token_embd.weight";
  if (stored == "model.norm.weight") return "output_norm.weight";
  if (stored == "lm_head.weight") return "output.weight";
  constexpr std::string_view layers = "model.layers.";
  if (!stored.starts_with(layers)) return {};
  const std::string_view rest = std::string_view(stored).substr(layers.size());
  const size_t dot = rest.find('.'), kind = rest.rfind('.');
  if (dot == kind) return {};
  const std::string_view name = name_in_file(rest.substr(dot + 1, kind - dot - 1), options);
  return name.empty() ? "" : fmt::format("blk.{}.{}{}", rest.substr(0, dot), name, rest.substr(kind));
}

}  // namespace heddle::nn
