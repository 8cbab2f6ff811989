#include "heddle/distributed/forecast/layers.h"

namespace heddle::distributed {
namespace {

template <class Value>
double sum_of(const StepLayers& step, const Value& value) {
  double sum = 0;
  for (const Block& block : step.blocks)
    for (const Layer& layer : block.layers) sum += value(block, layer);
  return sum;
}

}  // namespace

int64_t parameters_of(const StepLayers& step) {
  int64_t count = 0;
  for (const Block& block : step.blocks)
    for (const Layer& layer : block.layers) count += layer.parameters;
  return count;
}

double model_flops_of(const StepLayers& step) {
  return sum_of(step, [](const Block&, const Layer& layer) { return layer.flops + layer.backward_flops; });
}

double hardware_flops_of(const StepLayers& step) {
  return sum_of(step, [](const Block& block, const Layer& layer) {
    return layer.flops * (block.recomputes ? 2 : 1) + layer.backward_flops;
  });
}

}  // namespace heddle::distributed
