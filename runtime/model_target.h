// Which images of a `.heddle` file a device takes, and with which code.
//
// Purpose: a part says its target by name ("opencl", "vulkan", "cuda:sm_80"); the image says the driver that it was
// made with. On that driver the driver's own programs are loaded; on another one of the same target the text or SPIR-V,
// when the device has what the plan takes as given (ImageNeeds). Errors: ModelError HEDDLE_NO_IMAGE that says what is
// there and why it does not fit. Thread safety: pure but for the devices.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/io/model_parts.h"
#include "heddle/runtime/model_image.h"

namespace heddle {

struct NamedImage {
  std::string bucket;
  ModelImage image;
};

// "opencl", "vulkan", "cuda:sm_80": what images for such a device are called; "" where it takes no kernels.
std::string target_name(const Caps& caps);
// Whether a device whose images are called `own` may take those of a part's target: cubins of an older architecture of
// the same generation run on the newer one.
bool takes_target(std::string_view own, std::string_view target);

// For each bucket the image that fits best, in the order of the file; at least one.
std::vector<NamedImage> images_for(const ModelParts& parts, const DeviceContext& device);
// By kernel of the image, then by kernel of what it computes once.
std::vector<KernelId> load_kernels(DeviceContext& device, const ModelImage& image);
// The first device, in the order of preference, that the file has images for.
std::string best_device(const ModelParts& parts);

}  // namespace heddle
