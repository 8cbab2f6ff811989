// write_compiled(): functions of tensors as a `.heddle` file of images, for models that were written here.
//
//   write_compiled("net.heddle", [&](DeviceContext& device) { return std::vector{function_on(device)}; },
//                  {&device("opencl:0"), &device("vulkan:0")});
//
// Purpose: `heddle compile` does this for models of other makers, with their graph beside the images; here the images
// are all there is. Invariants: weights stand once in the file; it appears whole or not at all. Errors: those of
// compile_function() and write_model_parts(). Thread safety: as recording.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heddle/deploy/compile_function.h"
#include "heddle/io/write_model_parts.h"

namespace heddle {

// The function of each bucket (ModelFunction::bucket), on that device.
using FunctionsOn = std::function<std::vector<ModelFunction>(DeviceContext& device)>;

// The parts of such a file; the bytes are the caller's.
ModelPart image_part(const std::string& target, const std::string& bucket, std::span<const uint8_t> bytes);
ModelPart golden_part(const Golden& golden, const std::string& bucket, std::span<const uint8_t> bytes);

// `golden`: gives the golden vectors; null: none.
void write_compiled(const std::string& path, const FunctionsOn& functions, const std::vector<DeviceContext*>& devices,
                    DeviceContext* golden = nullptr);

}  // namespace heddle
