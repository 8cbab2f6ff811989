// The models of nn/models by name, for commands, tests and documents.
//
// Purpose: find_model("resnet18").make(device) is the network, .input what one call takes; find_classifier() gives
// those that can be made for images and classes of one's own. Errors: ValueError for an unknown name, with those that
// are near. Thread safety: the list is made once and then only read.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "heddle/core/base/callable.h"
#include "heddle/core/device/device_ref.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

// The images that a classifier is to take, and the classes that it is to tell apart.
struct ImageForm {
  int64_t channels = 3, side = 224;
  int64_t classes = 1000;
};

struct KnownModel {
  std::string name;
  Callable<std::unique_ptr<Module>(DeviceRef)> make;
  Shape input;               // a batch of one
  DType dtype = DType::f32;  // i32: tokens
  // Of classifiers of images: the same network for others. ValueError for images that it cannot take.
  Callable<std::unique_ptr<Module>(const ImageForm&, DeviceRef)> make_classifier = {};
  std::string head = {};  // pattern of the parameters of its last layer, whose number is that of the classes
};

std::span<const KnownModel> known_models();
const KnownModel& find_model(std::string_view name);
// The same of those that classify images.
const KnownModel& find_classifier(std::string_view name);

}  // namespace heddle::nn
