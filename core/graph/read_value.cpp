#include "heddle/core/graph/read_value.h"

#include <fmt/format.h>

#include <cstring>

#include "heddle/core/base/error.h"

namespace heddle {

std::vector<uint8_t> read_bytes(const Node& node) {
  const size_t width = size_of(node.dtype);
  std::vector<uint8_t> bytes(static_cast<size_t>(node.shape.numel()) * width);
  if (node.host) {
    std::memcpy(bytes.data(), node.host->words.data(), bytes.size());
    return bytes;
  }
  if (!node.storage) {
    throw ValueError(
        fmt::format("[read] the value of {} is gone: its memory was overwritten in place (assign or optimizer step); "
                    "read it earlier, "
                    "or keep a copy",
                    describe(node)));
  }
  const auto [low, high] = node.view.extent();
  if (high < low) return bytes;
  const auto span = static_cast<size_t>(high - low + 1) * width;
  const uint64_t first = static_cast<uint64_t>(low) * width;
  View dense = View::dense(node.shape);
  dense.offset = low;
  if (node.view == dense) {
    node.device->read(*node.storage, first, bytes.data(), span);
    return bytes;
  }
  std::vector<uint8_t> range(span);
  node.device->read(*node.storage, first, range.data(), span);
  gather(range.data(), node.view, low, width, bytes.data());
  return bytes;
}

HostArray read_value(const Node& node) {
  return host_array_from_bytes(read_bytes(node).data(), node.shape, node.dtype);
}

}  // namespace heddle
