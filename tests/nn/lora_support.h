// Helpers of the tests of adapters: PEFT's options, adapters with values, a small model's logits.
#pragma once

#include <nlohmann/json.hpp>

#include "heddle/core/functions/random/generator.h"
#include "heddle/nn/lora.h"
#include "heddle/nn/models/llama.h"
#include "tests/nn/support.h"
#include "tests/nn/tiny_llama.h"

namespace heddle::tests {

// Of a stored case, under PEFT's names.
inline nn::LoraOptions options_of(const nlohmann::json& c) {
  nn::LoraOptions o{.rank = c.at("r"),
                    .alpha = c.at("lora_alpha"),
                    .rank_stabilised = c.value("use_rslora", false),
                    .dora = c.value("use_dora", false),
                    .targets = {}};
  for (const std::string target : c.at("target_modules")) o.targets.push_back("*." + target);
  return o;
}

// Adapters with values everywhere.
inline nn::Lora adapters(nn::Llama& model, const nn::LoraOptions& options) {
  Generator generator{.seed = 6};
  nn::Lora lora(model, options);
  const NoGradScope no_grad;
  for (auto& [name, p] : lora.state_dict()) Tensor(p).assign(uniform(p.shape(), 0.1, 0.5, &reference(), &generator));
  return lora;
}

// Of two rows of tokens below 19.
inline Values logits(nn::Llama& model) {
  const NoGradScope no_grad;
  return model(Tensor::from_vector<int32_t>({3, 14, 7, 7, 0, 18}, {2, 3}, &reference())).to_doubles();
}

}  // namespace heddle::tests
