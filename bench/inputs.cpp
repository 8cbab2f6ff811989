#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/graph/philox.h"

namespace heddle::bench {

std::string_view name_of(Bound bound) {
  switch (bound) {
    case Bound::compute:
      return "compute";
    case Bound::copy:
      return "copy";
    case Bound::read:
      return "read";
    case Bound::none:
      break;
  }
  return "none";
}

bool Environment::wants(std::string_view peer) const {
  return std::find(peers.begin(), peers.end(), peer) != peers.end();
}

Case& Case::tensor(std::span<const int64_t> shape, DType type, double passes) {
  double size = static_cast<double>(size_of(type));
  for (const int64_t length : shape) size *= static_cast<double>(length);
  largest_bytes = std::max(largest_bytes, size);
  resident_bytes += 2 * size;  // once on the device, once on the host
  bytes += passes * size;
  return *this;
}

std::vector<int64_t> parse_sizes(std::string_view family, const std::string& text, size_t count,
                                 std::string_view form) {
  const auto fail = [&](std::string_view why) {
    throw ValueError(fmt::format("[bench] {} case '{}' is not of the form {}{}", family, text, form, why));
  };
  std::vector<int64_t> sizes;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    int64_t value = 0;
    const auto [next, code] = std::from_chars(at, end, value);
    if (code == std::errc::result_out_of_range) fail(": a size overflows");
    if (code != std::errc{} || value < 1) fail("");
    if (value > std::numeric_limits<int32_t>::max()) fail(": sizes are below 2^31");
    sizes.push_back(value);
    if (next != end && (*next != 'x' || next + 1 == end)) fail("");
    at = next == end ? end : next + 1;
  }
  if (sizes.size() != count) fail("");
  return sizes;
}

std::vector<float> random_floats(int64_t count, uint32_t stream) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); i += 4) {
    const auto bits = philox({static_cast<uint32_t>(i / 4), static_cast<uint32_t>(i / 4 >> 32), stream, 4}, {1, 2});
    for (size_t j = 0; j < 4 && i + j < values.size(); ++j)
      values[i + j] = static_cast<float>(bits[j] >> 8) * 0x1p-24f - 0.5f;
  }
  return values;
}

Tensor random_tensor(const Shape& shape, DType dtype, uint32_t stream, DeviceContext& device) {
  const std::vector<float> values = random_floats(shape.numel(), stream);
  if (dtype == DType::f32) return Tensor::from_vector(values, shape, &device);
  std::vector<uint8_t> bytes(values.size() * size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) store_element(bytes.data(), dtype, i, values[i]);
  return Tensor::from_bytes(bytes.data(), values.size(), dtype, shape, &device);
}

std::vector<float> floats_of(const Tensor& tensor) {
  const std::vector<uint8_t> bytes = tensor.to_bytes();
  std::vector<float> values(bytes.size() / size_of(tensor.dtype()));
  if (tensor.dtype() == DType::f32) {
    std::memcpy(values.data(), bytes.data(), bytes.size());
  } else {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<float>(load_element(bytes.data(), tensor.dtype(), i));
  }
  return values;
}

std::vector<int32_t> random_indices(int64_t count, int64_t below, uint32_t stream) {
  const std::vector<float> values = random_floats(count, stream);
  std::vector<int32_t> indices(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    indices[i] = static_cast<int32_t>(
        std::min<int64_t>(below - 1, static_cast<int64_t>((values[i] + 0.5) * static_cast<double>(below))));
  }
  return indices;
}

std::string difference(std::span<const float> ours, std::span<const float> expected, double tolerance) {
  if (ours.size() != expected.size()) return fmt::format("{} elements, expected {}", ours.size(), expected.size());
  float largest = 1e-3f;
  for (const float x : expected) largest = std::max(largest, std::abs(x));
  const float limit = static_cast<float>(tolerance) * largest;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!(std::abs(ours[i] - expected[i]) <= limit))
      return fmt::format("element {} is {}, expected {} +- {:.2g}", i, ours[i], expected[i], limit);
  }
  return "";
}

}  // namespace heddle::bench
