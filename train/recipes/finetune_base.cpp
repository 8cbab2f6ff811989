#include "heddle/train/recipes/finetune_base.h"

#include <fmt/format.h>

#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/train/recipes/finetune_memory.h"

namespace heddle::train {

const std::string& finetune_method(const Config& c) {
  const std::string& method = c.model_value<Text>("method");
  for (const char* known : {"lora", "qlora", "dora", "full"}) {
    if (method == known) return method;
  }
  throw ValueError(fmt::format("[finetune] --method {} is none of lora, qlora, dora, full", method));
}

BaseModel load_finetune_base(const Config& c, DeviceContext& device, bool with_text) {
  const std::string& path = c.model_value<Text>("base");
  if (path.empty()) throw ValueError("[finetune] which model? heddle finetune MODEL --data FILE");
  const std::optional<GgmlType> blocks = blocks_of_base(c.model_value<Text>("quantise"), finetune_method(c), path);
  const auto weights = finetune_method(c) == "qlora" ? nn::GgufWeights::packed : nn::GgufWeights::unpacked;
  BaseModel base;
  if (with_text)
    base = load_base_model(path, weights, device, {}, blocks);
  else
    base.network = load_base_network(path, weights, device, blocks);
  base.network->checkpoint_blocks(recomputes(c), c.model_value<Flag>("offload"));
  return base;
}

}  // namespace heddle::train
