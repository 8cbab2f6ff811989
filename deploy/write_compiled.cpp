#include "heddle/deploy/write_compiled.h"

#include <fmt/format.h>

#include <deque>
#include <utility>

#include "heddle/io/write_model_parts.h"
#include "heddle/runtime/model_target.h"

namespace heddle {
namespace {

std::string part_name(const std::string& kind, const std::string& bucket) {
  return bucket.empty() ? kind : fmt::format("{}/{}", kind, bucket);
}

}  // namespace

void write_compiled(const std::string& path, const FunctionsOn& functions, const std::vector<DeviceContext*>& devices,
                    DeviceContext* golden) {
  constexpr uint64_t seed = 20260;
  WeightStore weights;
  std::vector<ModelPart> parts;
  std::deque<std::vector<uint8_t>> kept;
  for (DeviceContext* const device : devices) {
    const std::string target = target_name(device->caps());
    for (const ModelFunction& function : functions(*device)) {
      kept.push_back(model_image_bytes(compile_function(*device, function, weights)));
      parts.push_back({.name = part_name("image/" + target, function.bucket),
                       .kind = PartKind::image,
                       .bytes = kept.back(),
                       .target = target,
                       .bucket = function.bucket});
    }
  }
  if (golden != nullptr) {
    for (const ModelFunction& function : functions(*golden)) {
      kept.push_back(golden_bytes(golden_of(*golden, function, seed)));
      parts.push_back({.name = part_name("golden", function.bucket),
                       .kind = PartKind::golden,
                       .bytes = kept.back(),
                       .attributes = {{"device", golden->id()}}});
    }
  }
  if (!weights.bytes().empty())
    parts.push_back({.name = weights.part(), .kind = PartKind::weights, .bytes = weights.bytes()});
  write_model_parts(path, parts);
}

}  // namespace heddle
