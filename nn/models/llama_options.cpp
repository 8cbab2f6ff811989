#include "heddle/nn/models/llama_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "heddle/core/base/error.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

constexpr int64_t most_head_size = 65536;

void check_heads(const LlamaOptions& o) {
  if (o.head_size == 0 && o.width % o.heads != 0)
    throw ValueError(fmt::format("[Llama] {} heads do not divide the width {}", o.heads, o.width));
  checked_size("Llama", "the size of a head", o.size_of_head(), most_head_size);
  if (o.heads > most_size / o.size_of_head())
    throw ValueError(fmt::format("[Llama] {} heads of {} elements are too many", o.heads, o.size_of_head()));
  if (o.heads % o.key_heads != 0)
    throw ValueError(fmt::format("[Llama] {} heads of keys do not divide {} heads", o.key_heads, o.heads));
  if (o.size_of_rope() % 2 != 0)
    throw ValueError(fmt::format("[Llama] heads have {} elements; rotary positions turn pairs", o.size_of_rope()));
  if (o.size_of_rope() > o.size_of_head())
    throw ValueError(fmt::format("[Llama] {} elements of a head turn, it has {}", o.rope_size, o.size_of_head()));
}

void check_lists(const LlamaOptions& o) {
  if (!o.windowed.empty() && o.windowed.size() != static_cast<size_t>(o.layers))
    throw ValueError(fmt::format("[Llama] windowed has {} layers of {}", o.windowed.size(), o.layers));
  if (o.rope_factors.empty()) return;
  if (o.rope_factors.size() != static_cast<size_t>(o.size_of_rope() / 2))
    throw ValueError(
        fmt::format("[Llama] rope_factors are {}, expected {}", o.rope_factors.size(), o.size_of_rope() / 2));
  if (!std::ranges::all_of(o.rope_factors, [](double f) { return f > 0 && std::isfinite(f); }))
    throw ValueError("[Llama] rope_factors must be above 0");
}

struct NamedNumber {
  const char* what;
  double value;
};

void check_numbers(const LlamaOptions& o) {
  for (const auto& [what, value] : {NamedNumber{"rope_base", o.rope_base}, {"embedding_scale", o.embedding_scale}}) {
    if (!(value > 0 && std::isfinite(value)))
      throw ValueError(fmt::format("[Llama] {} is {}; it must be above 0", what, value));
  }
  for (const auto& [what, value] : {NamedNumber{"eps", o.eps},
                                    {"score_scale", o.score_scale},
                                    {"score_cap", o.score_cap},
                                    {"logit_cap", o.logit_cap},
                                    {"window_rope_base", o.window_rope_base}}) {
    if (!(value >= 0 && std::isfinite(value)))
      throw ValueError(fmt::format("[Llama] {} is {}; it must not be negative", what, value));
  }
}

}  // namespace

const LlamaOptions& checked(const LlamaOptions& o) {
  check_sizes("Llama", {{"vocabulary", o.vocabulary},
                        {"context", o.context},
                        {"heads", o.heads},
                        {"key_heads", o.key_heads},
                        {"width", o.width},
                        {"hidden", o.hidden}});
  checked_size("Llama", "layers", o.layers, most_layers);
  checked_size("Llama", "head_size", o.head_size, most_size, 0);
  checked_size("Llama", "rope_size", o.rope_size, most_size, 0);
  checked_size("Llama", "window", o.window, most_size, 0);
  check_heads(o);
  check_numbers(o);
  check_lists(o);
  return o;
}

LlamaOptions smollm2_135m() {
  return {.vocabulary = 49152,
          .context = 8192,
          .layers = 30,
          .heads = 9,
          .key_heads = 3,
          .width = 576,
          .hidden = 1536,
          .rope_base = 100000,
          .tied = true};
}
LlamaOptions tiny_llama_1b() { return {}; }

}  // namespace heddle::nn
