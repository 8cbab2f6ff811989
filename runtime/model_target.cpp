#include "heddle/runtime/model_target.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/device/registry.h"
#include "heddle/runtime/model_error.h"

namespace heddle {
namespace {

constexpr std::string_view cuda_prefix = "cuda:sm_";

// 80 of "cuda:sm_80"; -1: of another target.
int architecture_of(std::string_view target) {
  if (!target.starts_with(cuda_prefix)) return -1;
  return parse_number<int>(target.substr(cuda_prefix.size())).value_or(-1);
}

// "opencl N=1, vulkan N=1": what a file has instead.
std::string targets_of(const ModelParts& parts) {
  std::set<std::string> targets;
  for (const PartEntry& entry : parts.entries()) {
    if (entry.kind == PartKind::image) targets.insert(shortened(entry.target));
  }
  return targets.empty() ? "no images: heddle compile makes them"
                         : fmt::format("images for {}", fmt::join(targets, ", "));
}

bool is_exact(const ModelImage& image, const Caps& caps) { return image.image.driver_hash == caps.image_hash(); }

// Why the device cannot take it; "" when it can.
std::string complaint(const ModelImage& image, const Caps& caps) {
  if (image.image.target != name_of(caps.target))
    return fmt::format("its kernels are in {}, the device takes {}", shortened(image.image.target),
                       name_of(caps.target));
  if (is_exact(image, caps)) return "";
  return needs_complaint(image.needs, caps);
}

std::vector<KernelId> load_programs(DeviceContext& device, const ModelImage& image) {
  std::vector<KernelBinary> binaries;
  std::vector<const KernelBinary*> list;
  const std::vector<const GraphImage::Kernel*> kernels = kernels_of(image.image);
  binaries.reserve(kernels.size());
  for (size_t k = 0; k < kernels.size(); ++k) {
    KernelBinary& binary = binaries.emplace_back();
    binary.signature = kernels[k]->signature();
    binary.kind = KernelBinary::Kind::opencl_program;
    binary.bytes = image.programs[k];
    list.push_back(&binary);
  }
  return device.load(list);
}

std::vector<KernelId> load_code(DeviceContext& device, const ModelImage& image) {
  std::vector<const KernelBinary*> list;
  for (const GraphImage::Kernel* kernel : kernels_of(image.image)) {
    if (!kernel->is_compiled())
      throw ModelError(HEDDLE_NO_IMAGE,
                       fmt::format("kernel {} of the image is not compiled", kernel->signature().name));
    list.push_back(&kernel->binary);
  }
  return device.load(list);
}

}  // namespace

std::string target_name(const Caps& caps) {
  switch (caps.target) {
    case Target::opencl:
      return "opencl";
    case Target::glsl:
      return "vulkan";
    case Target::cuda:
      return fmt::format("{}{}", cuda_prefix, caps.architecture);
    case Target::c:  // is written as source, in no file that is loaded
    case Target::none:
      break;
  }
  return "";
}

bool takes_target(std::string_view own, std::string_view target) {
  if (own == target) return !own.empty();
  const int here = architecture_of(own), there = architecture_of(target);
  return there > 0 && here >= there && here / 10 == there / 10;
}

std::vector<NamedImage> images_for(const ModelParts& parts, const DeviceContext& device) {
  const Caps& caps = device.caps();
  const std::string own = target_name(caps);
  std::vector<NamedImage> chosen;
  std::string why;
  for (const PartEntry& entry : parts.entries()) {
    if (entry.kind != PartKind::image || !takes_target(own, entry.target)) continue;
    ModelImage image = model_image_from_bytes(parts.bytes(entry));
    if (const std::string fault = complaint(image, caps); !fault.empty()) {
      why = fmt::format("that for {} was made on {} ({}): {}", shortened(entry.target), shortened(image.device),
                        shortened(image.driver), fault);
      continue;
    }
    const auto known =
        std::find_if(chosen.begin(), chosen.end(), [&](const auto& n) { return n.bucket == entry.bucket; });
    if (known == chosen.end())
      chosen.push_back({entry.bucket, std::move(image)});
    else if (is_exact(image, caps) && !is_exact(known->image, caps))
      known->image = std::move(image);
  }
  if (chosen.empty())
    throw ModelError(HEDDLE_NO_IMAGE, fmt::format("the file has no image for {}: {}", device.id(),
                                                  why.empty() ? "it has " + targets_of(parts) : why));
  return chosen;
}

std::vector<KernelId> load_kernels(DeviceContext& device, const ModelImage& image) {
  if (!image.programs.empty() && is_exact(image, device.caps())) {
    try {
      return load_programs(device, image);
    } catch (const CompileError&) {  // a driver that was built anew under the same version: its own compiler helps
    }
  }
  return load_code(device, image);
}

std::string best_device(const ModelParts& parts) {
  std::vector<std::string> absent;
  for (const DeviceInfo& info : Registry::instance().devices()) {
    const std::string own = info.available ? target_name(info.caps) : "";
    const auto fits = [&](const PartEntry& e) { return e.kind == PartKind::image && takes_target(own, e.target); };
    if (!own.empty() && std::any_of(parts.entries().begin(), parts.entries().end(), fits)) return info.id;
  }
  throw ModelError(HEDDLE_NO_DEVICE, fmt::format("no device here takes what the file has: {}", targets_of(parts)));
}

}  // namespace heddle
