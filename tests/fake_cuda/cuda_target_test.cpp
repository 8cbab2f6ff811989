// Images for GPUs that are not here (deploy/cuda_target.h): facts as the backend reads them, machine code of the
// architecture, and the values, where the driver of these tests stands for such a GPU.
#include "heddle/deploy/cuda_target.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "heddle/backend_cuda/nvrtc.h"
#include "heddle/core/functions/functions.h"
#include "heddle/deploy/planned_device.h"
#include "tests/fake_cuda/fake_libcuda.h"
#include "tests/runtime/through_c.h"

namespace heddle::test {
namespace {

// The GPU that fake_libcuda.cpp plays. No NVRTC knows sm_99, so that its images hold PTX, which the executor runs.
constexpr CudaArchitecture played{99, "Fake GPU", 4, 232448, 1};

class CudaTarget : public testing::Test {
 protected:
  void SetUp() override {
    std::string absent;
    if (!cuda::have_nvrtc(&absent)) GTEST_SKIP() << absent;
    fake_cuda_revive();
  }
  std::string written(const FunctionsOn& functions, DeviceContext& planned) {
    const std::string path = folder / "net.heddle";
    write_compiled(path, functions, {&planned});
    return path;
  }
  TemporaryFolder folder;
};

DeviceContext& planned_as(const CudaArchitecture& architecture) {
  return planned_device(
      {.id = "cuda:sm", .backend = "cuda", .name = "p", .driver = "d", .reason = "", .caps = cuda_caps(architecture)});
}

TEST_F(CudaTarget, FactsAreThoseThatTheBackendReads) {
  const Caps read = device("cuda:0").caps(), planned = cuda_caps(played);
  EXPECT_EQ(needs_complaint(needs_of(planned), read), "");
  EXPECT_EQ(needs_complaint(needs_of(read), planned), "");
  EXPECT_EQ(planned.device_class, read.device_class);
  EXPECT_EQ(planned.vendor_id, read.vendor_id);
  EXPECT_EQ(planned.compute_units, read.compute_units);
  EXPECT_TRUE(std::ranges::equal(planned.max_group, read.max_group));
  EXPECT_TRUE(std::ranges::equal(planned.max_groups, read.max_groups));
  EXPECT_EQ(planned.memory_bytes, read.memory_bytes);
  EXPECT_EQ(planned.max_allocation_bytes, read.max_allocation_bytes);
  EXPECT_EQ(planned.max_binding_bytes, read.max_binding_bytes);
  EXPECT_EQ(planned.f64_math, read.f64_math);
  EXPECT_EQ(planned.int8_dot, read.int8_dot);
  EXPECT_EQ(planned.queues, read.queues);
}

TEST_F(CudaTarget, TheRuntimeGivesTheLibrarysBits) {
  DeviceContext& planned = planned_as(played);
  DeviceContext& here = device("cuda:0");
  for (const ZooModel& model : zoo()) {
    SCOPED_TRACE(model.name);
    const ModelFunction function = model.functions(here)[0];
    const Golden given = golden_of(here, function, 3);
    const Opened opened(written(model.functions, planned), "cuda:0");
    ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
    EXPECT_EQ(run_through_c(opened.model, given), run_compiled(here, function, given));
  }
}

// Planned for more multiprocessors than there are, as for a card of the table.
TEST_F(CudaTarget, SchedulesOfALargerCardGiveTheValues) {
  CudaArchitecture larger = played;
  larger.units = 132;
  DeviceContext& planned = planned_as(larger);
  DeviceContext& reference = device("reference:0");
  for (const ZooModel& model : zoo()) {
    SCOPED_TRACE(model.name);
    const Golden given = golden_of(reference, model.functions(reference)[0], 3);
    const Opened opened(written(model.functions, planned), "cuda:0");
    ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
    const std::vector<Bytes> found = run_through_c(opened.model, given);
    ASSERT_EQ(found.size(), given.outputs.size());
    for (size_t k = 0; k < found.size(); ++k) {
      ASSERT_EQ(found[k].size(), given.outputs[k].bytes.size());
      for (size_t i = 0; i < found[k].size() / sizeof(float); ++i) {
        float value = 0, wanted = 0;
        std::memcpy(&value, found[k].data() + i * sizeof(float), sizeof(float));
        std::memcpy(&wanted, given.outputs[k].bytes.data() + i * sizeof(float), sizeof(float));
        ASSERT_NEAR(value, wanted, 1e-4) << k << ' ' << i;
      }
    }
  }
}

// The flags of an ELF file for NVIDIA's GPUs hold the architecture: in their second byte from ABI 8 on (CUDA 13), in
// their first one before.
uint32_t architecture_of(const std::vector<uint8_t>& code) {
  constexpr size_t abi_at = 8, machine_at = 18, flags_at = 48;
  uint16_t machine = 0;
  uint32_t flags = 0;
  if (code.size() < 64 || std::memcmp(code.data(), "\177ELF", 4) != 0) return 0;
  std::memcpy(&machine, code.data() + machine_at, sizeof(machine));
  std::memcpy(&flags, code.data() + flags_at, sizeof(flags));
  if (machine != 190) return 0;
  return code[abi_at] >= 8 ? flags >> 8 & 0xff : flags & 0xff;
}

TEST_F(CudaTarget, EachImageIsMachineCodeOfItsArchitecture) {
  std::vector<DeviceContext*> devices;
  for (const CudaArchitecture& a : compiled_cuda_architectures())
    devices.push_back(&cuda_target("cuda:sm_" + std::to_string(a.sm)));
  ASSERT_FALSE(devices.empty());
  const std::string file = folder / "net.heddle";
  write_compiled(file, two_buckets(), devices);
  const ModelParts parts = ModelParts::read(file);
  for (const DeviceContext* planned : devices) {
    const std::string target = target_name(planned->caps());
    for (const char* bucket : {"N=1", "N=3"}) {
      SCOPED_TRACE(target + " " + bucket);
      const PartEntry* const part = parts.find_image(target, bucket);
      ASSERT_NE(part, nullptr);
      const ModelImage image = model_image_from_bytes(parts.bytes(*part));
      EXPECT_EQ(image.needs.architecture, planned->caps().architecture);
      ASSERT_FALSE(kernels_of(image.image).empty());
      for (const GraphImage::Kernel* kernel : kernels_of(image.image))
        EXPECT_EQ(architecture_of(kernel->binary.bytes), planned->caps().architecture) << kernel->signature().name;
    }
  }
}

TEST_F(CudaTarget, WhatNvrtcDoesNotKnowIsNamedWithWhatItKnows) {
  for (const char* name : {"cuda:sm_12", "cuda:sm_", "cuda:sm_80x", "cuda:sm_4294967376"}) {
    try {
      cuda_target(name);
      ADD_FAILURE() << name;
    } catch (const ValueError& error) {
      EXPECT_NE(std::string(error.what()).find(std::string("there is no target '") + name + "'; NVRTC "),
                std::string::npos);
      EXPECT_NE(std::string(error.what()).find("cuda:sm_90"), std::string::npos);
    }
  }
}

TEST_F(CudaTarget, NothingRunsOnIt) {
  DeviceContext& planned = planned_as(played);
  EXPECT_TRUE(only_plans(planned));
  EXPECT_FALSE(only_plans(device("cuda:0")));
  EXPECT_THROW((ones({3}, DType::f32, &planned) + 1.0).to_bytes(), ValueError);
}

}  // namespace
}  // namespace heddle::test
