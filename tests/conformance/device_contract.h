// The subjects, kernels and fixture of the tests of core/contract/device.h (device_contract*_test.cpp): every device
// that runs kernels, whatever its backend. Vulkan devices are opened a second time with staging forced, as on a
// discrete GPU.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/error.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/contract/handles.h"
#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"

namespace heddle::device_contract {

// A device, and for Vulkan whether staging is forced.
struct Subject {
  std::string id;
  bool staged = false;
};
inline std::vector<Subject> subjects() {
  std::vector<Subject> found;
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (info.backend == "reference" || info.backend == "null") continue;
    found.push_back({info.id, false});
    if (info.backend == "vulkan") found.push_back({info.id, true});
  }
  return found;
}

inline std::string test_name(const testing::TestParamInfo<Subject>& param) {
  std::string name = param.param.id + (param.param.staged ? "_staged" : "");
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

inline KernelSource elementwise(std::string name, std::vector<BufferParam> buffers, std::vector<ConstParam> constants,
                                std::string statement) {
  KernelSource source;
  source.name = std::move(name);
  source.buffers = std::move(buffers);
  source.constants = std::move(constants);
  source.constants.insert(source.constants.begin(), {"n", ConstParam::Type::u32});
  source.group = {32, 1, 1};
  source.body = "  uint i = GROUP_ID(0) * 32u + LOCAL_ID(0);\n  if (i < n) {\n    " + statement + "\n  }\n";
  source.origin = "device_contract_test";
  return source;
}

// out[i] = (3 a[i] + b[i] + c) mod 2^24: exact on every device, and no step of a chain can be left out unnoticed.
inline KernelSource mix_source() {
  return elementwise("mix",
                     {{"a", DType::i32, Access::read, true},
                      {"b", DType::i32, Access::read, true},
                      {"out", DType::i32, Access::write, true}},
                     {{"c", ConstParam::Type::i32}}, "STORE(out, i, (3 * LOAD(a, i) + LOAD(b, i) + c) & 16777215);");
}

inline KernelSource increment_source() {
  return elementwise("increment", {{"x", DType::i32, Access::read_write}}, {}, "STORE(x, i, LOAD(x, i) + 1);");
}

inline KernelSource add_source() {
  return elementwise("add", {{"x", DType::i32, Access::read}, {"total", DType::i32, Access::read_write}}, {},
                     "STORE(total, i, LOAD(total, i) + LOAD(x, i));");
}

inline uint32_t groups_for(uint32_t n) { return (n + 31) / 32; }

inline std::vector<uint8_t> random_bytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> bytes(count);
  for (auto& b : bytes) b = static_cast<uint8_t>(random());
  return bytes;
}

class DeviceContract : public testing::TestWithParam<Subject> {
 protected:
  void SetUp() override {
    for (const DeviceInfo& info : Registry::instance().devices()) {
      if (info.id != GetParam().id) continue;
      if (!info.available) GTEST_SKIP() << info.id << ": " << info.reason;
      device_ = open();
      return;
    }
    FAIL() << GetParam().id << " is not listed any more";
  }
  inline std::unique_ptr<Device> open() {
    if (GetParam().staged) setenv("HEDDLE_VULKAN_STAGING", "1", 1);
    auto device = Registry::instance().open(GetParam().id);
    unsetenv("HEDDLE_VULKAN_STAGING");
    return device;
  }

  Device& dev() { return *device_; }
  inline BufferId make(const std::vector<int32_t>& values) {
    const BufferId buffer = dev().alloc(values.size() * 4);
    dev().write(buffer, 0, values.data(), values.size() * 4);
    return buffer;
  }
  inline std::vector<int32_t> get(BufferId buffer, size_t count) {
    std::vector<int32_t> values(count);
    dev().read(buffer, 0, values.data(), count * 4);
    return values;
  }
  inline RecordingId record(std::vector<Command> commands, bool timed = false) { return dev().record(commands, timed); }

  std::unique_ptr<Device> device_;
};

}  // namespace heddle::device_contract
