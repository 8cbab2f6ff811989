#include "heddle/deploy/write_compiled.h"

#include <fmt/format.h>

#include <deque>
#include <utility>

#include "heddle/runtime/model_target.h"

namespace heddle {
namespace {

std::string part_name(const std::string& kind, const std::string& bucket) {
  return bucket.empty() ? kind : fmt::format("{}/{}", kind, bucket);
}

}  // namespace

ModelPart image_part(const std::string& target, const std::string& bucket, std::span<const uint8_t> bytes) {
  return {.name = part_name("image/" + target, bucket),
          .kind = PartKind::image,
          .bytes = bytes,
          .target = target,
          .bucket = bucket};
}

ModelPart golden_part(const Golden& golden, const std::string& bucket, std::span<const uint8_t> bytes) {
  return {.name = part_name("golden", bucket),
          .kind = PartKind::golden,
          .bytes = bytes,
          .attributes = {{"device", golden.device}}};
}

void write_compiled(const std::string& path, const FunctionsOn& functions, const std::vector<DeviceContext*>& devices,
                    DeviceContext* golden) {
  WeightStore weights;
  std::vector<ModelPart> parts;
  std::deque<std::vector<uint8_t>> kept;
  for (DeviceContext* const device : devices) {
    const std::string target = target_name(device->caps());
    for (const ModelFunction& function : functions(*device)) {
      kept.push_back(model_image_bytes(compile_function(*device, function, weights)));
      parts.push_back(image_part(target, function.bucket, kept.back()));
    }
  }
  if (golden != nullptr) {
    for (const ModelFunction& function : functions(*golden)) {
      const Golden made = golden_of(*golden, function, golden_seed);
      kept.push_back(golden_bytes(made));
      parts.push_back(golden_part(made, function.bucket, kept.back()));
    }
  }
  if (!weights.bytes().empty())
    parts.push_back({.name = weights.part(), .kind = PartKind::weights, .bytes = weights.bytes()});
  write_model_parts(path, parts);
}

}  // namespace heddle
