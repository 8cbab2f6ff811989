#include "heddle/nn/models/llama_families.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/nn/models/config_reader.h"
#include "heddle/nn/models/rotary.h"

namespace heddle::nn {
namespace {

// Sizes that all families call alike; `usual` is the size of a head of files that do not say, 0: width / heads.
void read_sizes(const ConfigReader& c, LlamaOptions& o, int64_t usual) {
  o.vocabulary = c.size("vocab_size");
  o.context = c.size("max_position_embeddings");
  o.layers = c.size("num_hidden_layers", {}, most_layers);
  o.heads = c.size("num_attention_heads");
  o.key_heads = c.size("num_key_value_heads", o.heads);
  o.width = c.size("hidden_size");
  o.hidden = c.size("intermediate_size");
  o.eps = c.number("rms_norm_eps", 1e-6);
  o.head_size = c.size("head_dim", usual, most_size, 0);
  if (o.width % o.heads == 0 && o.head_size == o.width / o.heads) o.head_size = 0;
}

void read_turned_part(const ConfigReader& c, LlamaOptions& o) {
  const double part = c.number("partial_rotary_factor", 1.0);
  if (part == 1) return;
  const double turned = part * static_cast<double>(o.size_of_head());
  if (!(turned >= 2 && part < 1))
    c.fail(fmt::format("partial_rotary_factor is {}, of heads of {}", part, o.size_of_head()));
  o.rope_size = static_cast<int64_t>(turned);
}

// The part of a head that turns, and what its frequencies are divided by.
void read_rope(const ConfigReader& c, LlamaOptions& o) {
  o.rope_base = c.number("rope_theta", o.rope_base);
  read_turned_part(c, o);
  const std::string kind = c.text("rope_type", c.text("type", "default"));
  if (kind == "default") return;
  const double factor = kind == "linear" || kind == "llama3" ? c.number("factor") : 1;
  if (!(factor >= 1)) c.fail(fmt::format("the factor of rotary positions is {}, expected at least 1", factor));
  if (kind == "linear") {
    o.rope_factors.assign(static_cast<size_t>(o.size_of_rope() / 2), factor);
  } else if (kind == "llama3") {
    const StretchedWaves waves{.factor = factor,
                               .low = c.number("low_freq_factor"),
                               .high = c.number("high_freq_factor"),
                               .context = c.number("original_max_position_embeddings", static_cast<double>(o.context))};
    if (!(waves.high > waves.low)) c.fail("high_freq_factor must be above low_freq_factor");
    o.rope_factors = rotary_factors(o.size_of_rope(), o.rope_base, waves);
  } else {
    c.fail(fmt::format("rotary positions are scaled as '{}'; read are linear and llama3", shortened(kind)));
  }
}

// rope_parameters, or rope_theta beside rope_scaling.
void read_rope_of_file(const ConfigReader& c, LlamaOptions& o) {
  o.rope_base = c.number("rope_theta", o.rope_base);
  if (c.has("rope_parameters")) return read_rope(c.inside("rope_parameters"), o);
  read_turned_part(c, o);
  if (c.has("rope_scaling")) read_rope(c.inside("rope_scaling"), o);
}

// layer_types where the file has them; else layer i has the window where `usual` says so.
template <class Usual>
void read_windows(const ConfigReader& c, LlamaOptions& o, const Usual& usual) {
  o.window = c.size("sliding_window", 0, most_size, 0);
  if (o.window == 0) return;
  std::vector<std::string> kinds;
  if (c.has("layer_types")) {
    kinds = c.texts("layer_types");
    if (static_cast<int64_t>(kinds.size()) != o.layers)
      c.fail(fmt::format("layer_types are {}, num_hidden_layers is {}", kinds.size(), o.layers));
  } else {
    for (int64_t i = 0; i < o.layers; ++i) kinds.emplace_back(usual(i) ? "sliding_attention" : "full_attention");
  }
  for (const std::string& kind : kinds) {
    if (kind != "sliding_attention" && kind != "full_attention")
      c.fail(fmt::format("layer_types has '{}'; read are sliding_attention and full_attention", shortened(kind)));
    o.windowed.push_back(kind == "sliding_attention");
  }
  if (std::ranges::count(o.windowed, true) == 0) o.window = 0;
  if (o.window == 0 || std::ranges::count(o.windowed, false) == 0) o.windowed.clear();
}

bool in_all(int64_t) { return true; }

void read_llama(const ConfigReader& c, LlamaConfig& config) { read_rope_of_file(c, config.options); }

void read_mistral(const ConfigReader& c, LlamaConfig& config) {
  read_rope_of_file(c, config.options);
  read_windows(c, config.options, in_all);
}

void read_qwen(const ConfigReader& c, LlamaOptions& o) {
  read_rope_of_file(c, o);
  if (!c.flag("use_sliding_window", false)) return;
  const int64_t first = c.size("max_window_layers", 28, most_layers, 0);
  read_windows(c, o, [&](int64_t layer) { return layer >= first; });
}

void read_qwen2(const ConfigReader& c, LlamaConfig& config) {
  config.options.qkv_bias = true;
  read_qwen(c, config.options);
}

void read_qwen3(const ConfigReader& c, LlamaConfig& config) {
  config.options.head_norms = true;
  read_qwen(c, config.options);
}

void read_phi3(const ConfigReader& c, LlamaConfig& config) {
  config.fused = true;
  read_rope_of_file(c, config.options);
  read_windows(c, config.options, in_all);
}

// What Gemmas share.
void read_gemma(const ConfigReader& c, LlamaOptions& o) {
  o.norm_around_one = o.norms_behind = o.gelu = true;
  o.embedding_scale = std::sqrt(static_cast<double>(o.width));
  const double scalar = c.number("query_pre_attn_scalar", 256.0);
  if (!(scalar > 0)) c.fail(fmt::format("query_pre_attn_scalar is {}, expected above 0", scalar));
  o.score_scale = 1 / std::sqrt(scalar);
  if (c.flag("use_bidirectional_attention", false)) c.fail("use_bidirectional_attention is not read");
}

void read_gemma2(const ConfigReader& c, LlamaConfig& config) {
  LlamaOptions& o = config.options;
  read_gemma(c, o);
  o.score_cap = c.number("attn_logit_softcapping", c.names("attn_logit_softcapping") ? 0.0 : 50.0);  // null: none
  o.logit_cap = c.number("final_logit_softcapping", c.names("final_logit_softcapping") ? 0.0 : 30.0);
  read_rope_of_file(c, o);
  read_windows(c, o, [](int64_t layer) { return layer % 2 == 0; });
}

void read_gemma3(const ConfigReader& c, LlamaConfig& config) {
  LlamaOptions& o = config.options;
  read_gemma(c, o);
  o.head_norms = true;
  o.score_cap = c.number("attn_logit_softcapping", 0.0);
  o.logit_cap = c.number("final_logit_softcapping", 0.0);
  o.rope_base = 1e6;
  o.window_rope_base = c.number("rope_local_base_freq", 1e4);
  if (c.has("rope_parameters")) {
    const ConfigReader both = c.inside("rope_parameters");
    if (both.has("full_attention")) read_rope(both.inside("full_attention"), o);
    if (both.has("sliding_attention")) {
      LlamaOptions local = o;
      local.rope_factors.clear();
      local.rope_base = o.window_rope_base;
      read_rope(both.inside("sliding_attention"), local);
      if (!local.rope_factors.empty() || local.rope_size != o.rope_size)
        c.fail("rope_parameters scale layers of sliding_attention, which is not read");
      o.window_rope_base = local.rope_base;
    }
  } else {
    read_rope_of_file(c, o);
  }
  const int64_t pattern = c.size("sliding_window_pattern", c.size("_sliding_window_pattern", 6));
  read_windows(c, o, [&](int64_t layer) { return (layer + 1) % pattern != 0; });
}

struct Family {
  const char* name;
  const char* architecture;  // its name in GGUF
  const char* activation;    // of the MLP's gate
  bool tied;                 // where the file does not say, as the next
  int64_t head_size;         // 0: width / heads
  void (*read)(const ConfigReader& c, LlamaConfig& config);
};
constexpr std::array families = {
    Family{"gemma2", "gemma2", "gelu_pytorch_tanh", true, 256, read_gemma2},
    Family{"gemma3_text", "gemma3", "gelu_pytorch_tanh", true, 256, read_gemma3},
    Family{"llama", "llama", "silu", false, 0, read_llama},
    Family{"mistral", "llama", "silu", false, 0, read_mistral},
    Family{"phi3", "phi3", "silu", false, 0, read_phi3},
    Family{"qwen2", "qwen2", "silu", false, 0, read_qwen2},
    Family{"qwen3", "qwen3", "silu", false, 128, read_qwen3},
};

// Families that are alike in name, and why they are not read.
struct Other {
  const char* name;
  const char* why;
};
constexpr std::array others = {
    Other{"gemma", "of the first Gemmas only the layers are alike"},
    Other{"gemma3", "it also reads images; its text model alone is gemma3_text"},
    Other{"gpt2", "nn::Gpt takes its weights through nn::from_gpt2()"},
    Other{"mixtral", "it is a mixture of experts"},
    Other{"phi", "its attention and MLP stand side by side"},
    Other{"qwen2_moe", "it is a mixture of experts"},
    Other{"qwen3_moe", "it is a mixture of experts"},
    Other{"smollm3", "some of its layers have no rotary positions"},
};

const Family& family_of(const ConfigReader& c) {
  const std::string type = c.text("model_type", "");
  if (type.empty()) c.fail("it has no model_type");
  const auto named = [&](const auto& row) { return type == row.name; };
  if (const auto found = std::ranges::find_if(families, named); found != families.end()) return *found;
  const auto other = std::ranges::find_if(others, named);
  c.fail(fmt::format("the model_type is '{}'{}; read are {}", shortened(type),
                     other != others.end() ? fmt::format(" ({})", other->why) : "", fmt::join(llama_families(), ", ")));
}

void refuse_unread(const ConfigReader& c, const Family& family) {
  if (c.has("quantization_config")) c.fail("its weights are quantised (quantization_config), which is not read");
  for (const char* key : {"attention_bias", "mlp_bias"}) {
    if (c.flag(key, false)) c.fail(fmt::format("{} is true, which is not read", key));
  }
  for (const char* key : {"hidden_activation", "hidden_act"}) {
    const std::string activation = c.text(key, "");
    if (activation.empty()) continue;
    if (activation != family.activation)
      c.fail(fmt::format("{} is '{}'; read is {}", key, shortened(activation), family.activation));
    return;
  }
}

}  // namespace

std::vector<std::string> llama_families() {
  std::vector<std::string> names;
  for (const Family& family : families) names.emplace_back(family.name);
  return names;
}

LlamaConfig llama_config(std::string_view text, const std::string& path) {
  const nlohmann::json json = parse_unique_json(text, fmt::format("[config] {}", path));
  if (!json.is_object()) throw IoError(fmt::format("[config] {}: it is no JSON object", path));
  const ConfigReader c(json, path);
  const Family& family = family_of(c);
  refuse_unread(c, family);
  LlamaConfig config;
  config.architecture = family.architecture;
  config.options.tied = c.flag("tie_word_embeddings", family.tied);
  const std::vector<int32_t> begin = c.tokens("bos_token_id");
  if (!begin.empty()) config.begin = begin[0];
  config.ends = c.tokens("eos_token_id");
  try {
    read_sizes(c, config.options, family.head_size);
    checked(config.options);
    family.read(c, config);
    checked(config.options);
  } catch (const ValueError& error) {
    c.fail(error.what());
  }
  return config;
}

}  // namespace heddle::nn
