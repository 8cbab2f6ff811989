// The models of nn/models by name, for commands, tests and documents.
//
// Purpose: find_model("resnet18").make(device) is the network, .input what one call takes. Errors: ValueError for an
// unknown name, with those that are near. Thread safety: the list is made once and then only read.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "heddle/core/base/callable.h"
#include "heddle/core/device/device_ref.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

struct KnownModel {
  std::string name;
  Callable<std::unique_ptr<Module>(DeviceRef)> make;
  Shape input;               // a batch of one
  DType dtype = DType::f32;  // i32: tokens
};

std::span<const KnownModel> known_models();
const KnownModel& find_model(std::string_view name);

}  // namespace heddle::nn
