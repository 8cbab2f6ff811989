// A family's options as the metadata of a GGUF file (nn/models/llama_gguf_options.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/ggml_quantise.h"
#include "heddle/nn/models/llama_gguf_options.h"

namespace heddle::nn {
namespace {

// What files of an architecture say beside sizes. The rest of LlamaOptions follows from its name.
struct Form {
  std::string_view architecture;
  int64_t period = 0;       // of windows: layers have one but for each period-th (1: all have it); 0: files name none
  int64_t largest = 0;      // layers of the model that divides scores by the root of width / heads
  bool caps = false;        // of scores and logits: there must be both
  bool part_turns = false;  // rope.dimension_count may be below a head's size
  bool factors = false;     // of rotary frequencies, one for each pair
  bool untied = true;       // output.weight may be there
};
constexpr std::array<Form, 6> forms = {{
    {.architecture = "gemma2", .period = 2, .largest = 46, .caps = true, .untied = false},
    {.architecture = "gemma3", .period = 6, .largest = 62},
    {.architecture = "llama", .factors = true},
    {.architecture = "phi3", .period = 1, .part_turns = true},
    {.architecture = "qwen2"},
    {.architecture = "qwen3"},
}};

// Windows that never hide a key may be left out.
bool says_windows(const LlamaOptions& o, const Form& form) {
  if (form.period == 0) return o.window == 0 || o.window >= o.context;
  if (o.window == 0) return !form.caps;  // Gemma 2's files without a window mean one of 4096
  for (int64_t i = 0; i < o.layers; ++i) {
    if ((o.window_of(i) > 0) != (form.period == 1 || (i + 1) % form.period != 0)) return false;
  }
  return true;
}

bool says_scale(const LlamaOptions& o, const Form& form) {
  const int64_t size = o.layers == form.largest ? o.width / o.heads : o.size_of_head();
  return o.score_scale == 0 || std::abs(o.score_scale * std::sqrt(static_cast<double>(size)) - 1) < 1e-6;
}

bool is_one_factor(const std::vector<double>& factors) {
  return std::ranges::all_of(factors, [&](double factor) { return factor == factors[0]; });
}

std::vector<std::string> unsaid(const LlamaOptions& o, const Form& form) {
  const std::pair<bool, std::string> all[] = {
      {says_windows(o, form), fmt::format("which of its layers have a window of {} positions", o.window)},
      {says_scale(o, form), fmt::format("scores that are multiplied by {:.6g}", o.score_scale)},
      {(o.score_cap > 0) == form.caps, fmt::format("a cap of {} of scores", o.score_cap)},
      {!form.caps || o.logit_cap > 0, "logits without a cap"},
      {form.part_turns || o.rope_size == 0, "heads that turn in part"},
      {form.factors || is_one_factor(o.rope_factors), "rotary frequencies with a factor each"},
      {form.untied || o.tied, "a last projection that is not the embedding"},
  };
  std::vector<std::string> reasons;
  for (const auto& [said, what] : all) {
    if (!said) reasons.push_back(what);
  }
  return reasons;
}

class Writer {
 public:
  Writer(GgufWriter& writer, const LlamaConfig& config) : writer_(writer), config_(config), o_(config.options) {}

  void run(const Form& form) {
    writer_.add("general.architecture", config_.architecture);
    sizes();
    rope();
    if (o_.score_cap > 0) number("attn_logit_softcapping", o_.score_cap);
    if (o_.logit_cap > 0) number("final_logit_softcapping", o_.logit_cap);
    if (form.period > 0 && o_.window > 0) size("attention.sliding_window", o_.window);
  }

 private:
  std::string key(const char* name) const { return fmt::format("{}.{}", config_.architecture, name); }
  void size(const char* name, int64_t value) { writer_.add(key(name), static_cast<uint32_t>(value)); }
  void number(const char* name, double value) { writer_.add(key(name), static_cast<float>(value)); }

  void sizes() {
    size("context_length", o_.context);
    size("block_count", o_.layers);
    size("embedding_length", o_.width);
    size("feed_forward_length", o_.hidden);
    size("attention.head_count", o_.heads);
    size("attention.head_count_kv", o_.key_heads);
    size("attention.key_length", o_.size_of_head());
    size("attention.value_length", o_.size_of_head());
    size("vocab_size", o_.vocabulary);
    number("attention.layer_norm_rms_epsilon", o_.eps);
  }

  void rope() {
    size("rope.dimension_count", o_.size_of_rope());
    number("rope.freq_base", o_.rope_base);
    if (o_.window > 0 && o_.window_rope_base > 0) number("rope.freq_base_swa", o_.window_rope_base);
    if (o_.rope_factors.empty()) return;
    if (is_one_factor(o_.rope_factors)) {
      writer_.add(key("rope.scaling.type"), "linear");
      return number("rope.scaling.factor", o_.rope_factors[0]);
    }
    const std::vector<float> factors(o_.rope_factors.begin(), o_.rope_factors.end());
    writer_.add_made_tensor(gguf_rope_factors, GgmlType::f32, {static_cast<int64_t>(factors.size())},
                            [factors] { return quantise(GgmlType::f32, factors); });
  }

  GgufWriter& writer_;
  const LlamaConfig& config_;
  const LlamaOptions& o_;
};

}  // namespace

void add_gguf_options(GgufWriter& writer, const LlamaConfig& config) {
  const auto form =
      std::ranges::find_if(forms, [&](const Form& row) { return row.architecture == config.architecture; });
  if (form == forms.end())
    throw ValueError(fmt::format("[export] no architecture of GGUF files is '{}'", config.architecture));
  if (const std::vector<std::string> reasons = unsaid(config.options, *form); !reasons.empty())
    throw ValueError(
        fmt::format("[export] GGUF files of {} do not say: {}; a folder does (an output without .gguf in its name)",
                    config.architecture, fmt::join(reasons, "; ")));
  Writer(writer, config).run(*form);
}

}  // namespace heddle::nn
