// One model over random sequence lengths: what `heddle bench shapes` prints and a conformance test holds it to.
//
// Purpose: kernels compiled, plans made, time and memory of each length, in the order in which they came. Lengths and
// data are the same on every device. Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"

namespace heddle::bench {

struct ShapesRequest {
  std::string model = "gpt";  // a training step; "gpt-forward": logits only
  int lengths = 50;
  int64_t shortest = 16, longest = 256;
  int64_t batch = 2, layers = 2, width = 128;
};

struct ShapeStep {
  int number = 0;  // from 1
  int64_t length = 0;
  uint64_t compiled = 0, planned = 0, kernels = 0;
  double seconds = 0;           // from recording to the end on the device
  double planning_seconds = 0;  // until it was submitted: of that, what the host did
  uint64_t live_bytes = 0;      // held on the device afterwards
  double loss = 0;              // 0 on a device that computes nothing
};

// ValueError for another model and for sizes that make none. `report` hears of each length as it ends.
std::vector<ShapeStep> run_shapes(const ShapesRequest& request, DeviceContext& device,
                                  const std::function<void(const ShapeStep&)>& report = {});

}  // namespace heddle::bench
