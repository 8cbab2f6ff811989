// compile_function(): a function of tensors as an image that runs without this library.
//
// Purpose: the function is recorded once, planned as compile(f) plans it for inputs of fixed sizes, run once (but on a
// device that is not here, deploy/planned_device.h), and written: kernels compiled, storages named, weights laid aside.
// Invariants: the image computes what compile(f) computes on that device, bit for bit; weights that several images
// share are kept once (WeightStore). Errors: ValueError "[compile] ..." for a function that cannot be written: it draws
// numbers, looks at values, updates tensors, or uses another device. Thread safety: as recording: one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/deploy/weight_store.h"
#include "heddle/runtime/golden.h"
#include "heddle/runtime/model_image.h"

namespace heddle {

struct ModelFunction {
  struct Input {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
  };
  std::vector<Input> inputs;
  std::vector<std::string> outputs;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call;
  std::string bucket;  // "N=8": what its sizes are called
};

ModelImage compile_function(DeviceContext& device, const ModelFunction& function, WeightStore& weights);

inline constexpr uint64_t golden_seed = 20260;  // of the files that are written here
// What the function gives on that device for inputs drawn with the seed: floats in [0, 1), integers and bools 0 or 1.
Golden golden_of(DeviceContext& device, const ModelFunction& function, uint64_t seed);

}  // namespace heddle
