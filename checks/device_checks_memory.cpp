// Bytes on their way to a device and back.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "checks/device_checks.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/philox.h"

namespace heddle::checks {
namespace {

std::vector<uint8_t> noise(size_t count) {
  std::vector<uint8_t> bytes(count);
  for (size_t i = 0; i < count; i += 16) {
    const std::array<uint32_t, 4> block = philox({static_cast<uint32_t>(i / 16), 0, 0, 0}, {0x68656464u, 0x6c65u});
    std::memcpy(bytes.data() + i, block.data(), std::min<size_t>(16, count - i));
  }
  return bytes;
}

std::string difference_of(std::span<const uint8_t> found, std::span<const uint8_t> expected) {
  if (found.size() != expected.size()) return fmt::format("{} bytes came back of {}", found.size(), expected.size());
  const auto at = std::mismatch(found.begin(), found.end(), expected.begin());
  if (at.first == found.end()) return {};
  return fmt::format("byte {} of {} came back as {:#04x}, expected {:#04x}", at.first - found.begin(), found.size(),
                     *at.first, *at.second);
}

Tensor uploaded(const std::vector<uint8_t>& bytes, DeviceContext& device) {
  return Tensor::from_host<uint8_t>(bytes, {static_cast<int64_t>(bytes.size())}, &device);
}

std::string there_and_back(size_t count, DeviceContext& device) {
  const std::vector<uint8_t> bytes = noise(count);
  return difference_of(uploaded(bytes, device).to_bytes(), bytes);
}

// Views that begin at odd bytes, read by themselves and copied by a kernel.
std::string odd_views(DeviceContext& device) {
  const std::vector<uint8_t> bytes = noise(5000);
  const Tensor whole = uploaded(bytes, device);
  for (const int64_t start : {1, 3, 255, 257, 4093}) {
    const std::span<const uint8_t> expected = std::span(bytes).subspan(static_cast<size_t>(start));
    const Tensor view = whole[Slice{start, {}}];
    for (const Tensor& way : {view, concat({view, view}, 0)[Slice{5000 - start, {}}]}) {
      if (std::string wrong = difference_of(way.to_bytes(), expected); !wrong.empty())
        return fmt::format("from byte {} on: {}", start, wrong);
    }
  }
  return {};
}

// Many uploads at once, each of its own bytes: none may get another's.
std::string many_at_once(DeviceContext& device) {
  constexpr size_t count = 64, each = 4099;
  const std::vector<uint8_t> bytes = noise(count * each);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < count; ++i)
    parts.push_back(Tensor::from_batch(std::span(bytes).subspan(i * each, each), {int64_t{each}}, &device));
  return difference_of(concat(parts, 0).to_bytes(), bytes);
}

}  // namespace

void add_memory_checks(std::vector<DeviceCheck>& checks) {
  const auto add = [&](std::string name, std::function<std::string(DeviceContext&)> run) {
    checks.push_back({.part = "memory", .name = std::move(name), .run = std::move(run)});
  };
  for (const size_t count : {size_t{0}, size_t{1}, size_t{3}, size_t{4097}, (size_t{1} << 24) + 5})
    add(fmt::format("{} bytes up and back", count),
        [count](DeviceContext& device) { return there_and_back(count, device); });
  add("views from odd bytes on", odd_views);
  add("many uploads at once", many_at_once);
}

}  // namespace heddle::checks
