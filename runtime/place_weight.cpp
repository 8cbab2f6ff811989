#include "heddle/runtime/place_weight.h"

#include <fmt/format.h>

#include <span>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/device/adopted.h"
#include "heddle/core/device/storage.h"

namespace heddle {
namespace {

constexpr uint64_t least_adopted = 4096;  // a smaller one shares memory with others

std::span<const uint8_t> bytes_of(const ModelParts& parts, const ModelImage::Weight& weight) {
  const PartEntry* part = parts.find(weight.part);
  if (part == nullptr || part->kind != PartKind::weights)
    throw IoError(fmt::format("[model_image] the file has no weights '{}'", shortened(weight.part)));
  if (weight.offset > part->bytes || weight.bytes > part->bytes - weight.offset)
    throw IoError(fmt::format("[model_image] {} bytes from {} lie outside of the weights '{}'", weight.bytes,
                              weight.offset, shortened(weight.part)));
  return parts.bytes(*part).subspan(static_cast<size_t>(weight.offset), static_cast<size_t>(weight.bytes));
}

}  // namespace

StoragePtr place_weight(DeviceContext& device, const ModelParts& parts, const ModelImage::Weight& weight) {
  const std::span<const uint8_t> bytes = bytes_of(parts, weight);
  if (bytes.size() >= least_adopted && bytes.size() % 4 == 0 && weight.offset % part_alignment == 0) {
    // Launches of an image read its weights and never write them (model_image_fault()).
    if (StoragePtr adopted = adopt_constant(device, bytes.data(), bytes.size())) return adopted;
  }
  StoragePtr storage = device.allocate(bytes.size());
  device.write(*storage, 0, bytes.data(), bytes.size());
  return storage;
}

}  // namespace heddle
