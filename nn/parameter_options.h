// ParameterOptions: where a model's parameters lie and which numbers their first values are.
//
//   nn::ResNet model(nn::resnet18(10), {.device = device("vulkan:0"), .generator = &numbers});
//
// Purpose: what every model of nn/models takes behind its own options; layers have the same fields in theirs. Thread
// safety: a value.
#pragma once

#include "heddle/core/device/device_ref.h"

namespace heddle {
struct Generator;
}

namespace heddle::nn {

struct ParameterOptions {
  DeviceRef device = {};           // {}: the default device
  Generator* generator = nullptr;  // null: the process's
};

}  // namespace heddle::nn
