// ModelImage: what a part of kind `image` in a `.heddle` file (io/model_parts.h) holds: a GraphImage and what binds it
// to a model.
//
// Purpose: an image reads storages by number; this says which of them are the model's inputs, which lie in the file's
// parts of weights, and where the outputs are. Invariants: as model_image_from_bytes() gives it, every storage of the
// image has one source, every output one place, counts and sizes fit each other (model_image_fault()). Whether the
// parts hold what it names is for the reader of the file to see. Errors: IoError "[model_image] ..." in one line.
// Thread safety: plain values, pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "heddle/core/contract/device_info.h"
#include "heddle/core/run/image.h"

namespace heddle {

// What the plan takes as given of a device; another driver with the same may load the kernels, where they are text or
// SPIR-V.
struct ImageNeeds {
  Machine machine = Machine::simt;
  uint32_t subgroup_size = 1, shared_bytes = 0, group_lanes = 1, bindings = 0, alignment = 1;
  uint64_t loop_iterations = 0;
  bool texel_loads = false, texel_images = false, storage8 = false, storage16 = false, i64_arithmetic = false;
  bool f16_arithmetic = false, f64 = false, i64 = false;
  uint32_t architecture = 0;  // CUDA: the code's
  std::string matrix_units;
};
ImageNeeds needs_of(const Caps& caps);
// Why a device with these caps cannot take the image; "" when it can.
std::string needs_complaint(const ImageNeeds& needs, const Caps& caps);

struct ModelImage {
  // An input or output of the model.
  struct Port {
    std::string name;
    DType dtype = DType::f32;
    std::vector<int64_t> shape;
    int32_t index = -1;  // storage that the image reads, -1: it does not need this input; or output of the image
    uint64_t bytes() const;
  };
  // A storage of the image that lies in a part of weights.
  struct Weight {
    int32_t slot = -1;
    std::string part;
    uint64_t offset = 0, bytes = 0;
  };

  std::string device, driver;  // that it was made on, for messages: "opencl:0", "Portable Computing Language 3.1"
  ImageNeeds needs;
  std::vector<Port> inputs, outputs;
  std::vector<Weight> weights;
  std::vector<uint32_t> host_words;  // four a host value
  uint64_t value_bytes = 0;          // what all temporaries would take side by side; for reports
  GraphImage image;
  // What the driver made of the kernels, by kernel of the image, then of what it computes once; loaded instead of
  // their code on the same driver. Empty: there is none.
  std::vector<std::vector<uint8_t>> programs;
};

// The kernels in the order of `programs`; they point into the image.
std::vector<const GraphImage::Kernel*> kernels_of(const GraphImage& image);

std::vector<uint8_t> model_image_bytes(const ModelImage& image);
ModelImage model_image_from_bytes(std::span<const uint8_t> bytes);
// What is wrong with it; "" when nothing is.
std::string model_image_fault(const ModelImage& image);

}  // namespace heddle
