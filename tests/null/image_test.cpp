// Images: what is written is read back, and nothing that is damaged is taken for an image.
#ifdef HEDDLE_HAS_BENCH
#include "heddle/core/run/image.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "bench/training_step.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/image_binaries.h"
#include "heddle/core/run/image_bytes.h"
#include "heddle/core/run/launcher.h"
#include "heddle/nn/nn.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::null_device;

GraphImage image_of(const char* text) {
  const bench::TrainingStep step = bench::make_training_step(text, null_device());
  step.record();
  eval_pending();
  const Tensor loss = step.record();
  GraphImage image = CompiledGraph::compile(null_device(), capture(held_pending()), true, {})->image();
  eval_pending();
  return image;
}

// The checksum is made right, so that what stands behind it is looked at.
std::vector<uint8_t> sealed(std::vector<uint8_t> bytes) {
  const uint64_t sum = hash_bytes(bytes.data() + 16, bytes.size() - 16);
  std::memcpy(bytes.data() + 8, &sum, sizeof(sum));
  return bytes;
}

TEST(GraphImage, BytesAreReadBack) {
  for (const char* text : {"mlp:32", "cnn:4", "gpt-offload:2x16x2x32"}) {
    const GraphImage image = image_of(text);
    EXPECT_EQ(image_fault(image), "") << text;
    const std::vector<uint8_t> bytes = image_bytes(image);
    const GraphImage read = image_from_bytes(bytes);
    EXPECT_EQ(image_bytes(read), bytes) << text;
    EXPECT_EQ(read.launch_count(), image.launch_count()) << text;
    ASSERT_EQ(read.kernels.size(), image.kernels.size()) << text;
    for (size_t k = 0; k < read.kernels.size(); ++k)
      EXPECT_EQ(read.kernels[k].source->hash(), image.kernels[k].source->hash()) << text;
  }
}

// Two processes that plan the same graph give the same image: nothing in it depends on where things lie in memory.
TEST(GraphImage, APlanMadeTwiceGivesTheSameBytes) {
  const std::vector<uint8_t> first = image_bytes(image_of("gpt:2x16x2x32"));
  const std::vector<std::vector<uint8_t>> between(7, std::vector<uint8_t>(12345));
  EXPECT_EQ(image_bytes(image_of("gpt:2x16x2x32")), first);
}

TEST(GraphImage, WhatIsCutOrChangedIsRefused) {
  const std::vector<uint8_t> bytes = image_bytes(image_of("mlp:32"));
  for (size_t size = 0; size < bytes.size(); size += 1 + size / 7) {
    const std::vector<uint8_t> cut(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_THROW(image_from_bytes(cut), IoError) << size;
    if (size > 16) {
      EXPECT_THROW(image_from_bytes(sealed(cut)), IoError) << size;
    }
  }
  std::vector<uint8_t> other = bytes;
  other[bytes.size() / 2] ^= 1;
  EXPECT_THROW(image_from_bytes(other), IoError);
}

// Behind a right checksum anything may stand: it is refused, or it is an image without a fault.
TEST(GraphImage, HostileBytesNeverGiveAFaultyImage) {
  const std::vector<uint8_t> bytes = image_bytes(image_of("mlp:32"));
  std::mt19937 random(7);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<uint8_t> other = bytes;
    for (int change = 0; change < 1 + round % 5; ++change) {
      const size_t at = 16 + random() % (other.size() - 16);
      other[at] = static_cast<uint8_t>(round % 2 == 0 ? random() : 255);
    }
    try {
      EXPECT_EQ(image_fault(image_from_bytes(sealed(std::move(other)))), "");
    } catch (const IoError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(GraphImage, FaultsAreNamed) {
  const GraphImage good = image_of("mlp:32");
  const auto fault = [&](const auto& change) {
    GraphImage bad = good;
    change(bad);
    EXPECT_THROW(image_from_bytes(image_bytes(bad)), IoError);
    return image_fault(bad);
  };
  EXPECT_EQ(fault([](GraphImage& i) { i.launches[0].index = 10000; }), "a kernel is not there");
  EXPECT_EQ(fault([](GraphImage& i) { i.launches[0].index = -1; }), "a kernel is not there");
  EXPECT_NE(fault([](GraphImage& i) { i.arena_bytes.assign(i.arena_bytes.size(), 1); }), "");
  EXPECT_NE(fault([](GraphImage& i) { i.outputs[0].index = 1 << 20; }), "");
  EXPECT_NE(fault([](GraphImage& i) { i.assigned.push_back(-1); }), "");
  EXPECT_NE(fault([](GraphImage& i) { i.once.push_back(i); }), "");
  EXPECT_EQ(fault([](GraphImage& i) {
              GraphImage::Loop loop;
              loop.places.length = int64_t{1} << 60;
              i.loops.push_back(loop);
            }),
            "a loop has too many launches");
}

// Compiled kernels stand beside the text or instead of it, and are what is loaded.
TEST(GraphImage, HoldsCompiledKernels) {
  const GraphImage plain = image_of("gpt-offload:2x16x2x32");
  for (const bool keep_sources : {true, false}) {
    GraphImage image = plain;
    add_binaries(image, null_device().caps(), keep_sources);
    EXPECT_EQ(image_fault(image), "");
    const std::vector<uint8_t> bytes = image_bytes(image);
    GraphImage read = image_from_bytes(bytes);
    EXPECT_EQ(image_bytes(read), bytes);
    ASSERT_EQ(read.kernels.size(), plain.kernels.size());
    for (size_t k = 0; k < read.kernels.size(); ++k) {
      EXPECT_TRUE(read.kernels[k].is_compiled());
      EXPECT_EQ(read.kernels[k].source.has_value(), keep_sources);
      EXPECT_TRUE(read.kernels[k].signature() == plain.kernels[k].signature());
      const KernelBinary again = compile_kernel(*plain.kernels[k].source, null_device().caps());
      EXPECT_EQ(read.kernels[k].binary.bytes, again.bytes);
      EXPECT_EQ(read.kernels[k].binary.hash(), again.hash());
    }
    const uint64_t before = null_device().counters().kernels_compiled;
    const Launcher launcher(null_device(), std::move(read));
    EXPECT_EQ(null_device().counters().kernels_compiled, before);
  }
}

TEST(GraphImage, FaultsOfCompiledKernelsAreNamed) {
  GraphImage good = image_of("mlp:32");
  add_binaries(good, null_device().caps(), true);
  const auto refused = [&](const auto& change) {
    GraphImage bad = good;
    change(bad.kernels[0]);
    EXPECT_THROW(image_from_bytes(image_bytes(bad)), IoError);
    return image_fault(bad);
  };
  using Kind = KernelBinary::Kind;
  EXPECT_EQ(refused([](auto& k) { k.binary.bytes.clear(); }), "a kernel has no code");
  EXPECT_EQ(refused([](auto& k) { k.binary.kind = Kind::none; }), "a kernel has code of no kind");
  EXPECT_EQ(refused([](auto& k) { k.binary.kind = Kind::spirv; }), "a kernel is not the SPIR-V that it says it is");
  EXPECT_EQ(refused([](auto& k) {
              k.source.reset();
              k.binary.signature.group[1] = 0;
            }),
            "a kernel has no lanes");
  EXPECT_EQ(refused([](auto& k) {
              k.source.reset();
              k.binary.kind = Kind::none;
              k.binary.bytes.clear();
            }),
            "a kernel is neither text nor code");
  GraphImage mixed = good;
  mixed.kernels[0].source->buffers.pop_back();
  EXPECT_EQ(image_fault(mixed), "the text of a kernel is that of another");
  // Well formed, but of another backend.
  good.kernels[0].binary.kind = Kind::cuda;
  EXPECT_THROW(Launcher(null_device(), good), DeviceError);
}

TEST(GraphImage, AnotherDeviceAndOtherInputsAreRefused) {
  GraphImage image = image_of("mlp:32");
  image.driver_hash ^= 1;
  EXPECT_THROW(Launcher(null_device(), image), DeviceError);
  image.driver_hash ^= 1;
  const Launcher launcher(null_device(), image);
  EXPECT_NE(launcher.complaint({}).find("inputs"), std::string::npos);
  const std::vector<StoragePtr> storages(image.input_bytes.size(), null_device().allocate(0));
  const std::vector<uint64_t> bases(storages.size(), 0);
  const std::vector<HostValue> values(static_cast<size_t>(image.host_values));
  EXPECT_NE(launcher.complaint({storages, bases, values}).find("bytes"), std::string::npos);
}

}  // namespace
}  // namespace heddle
#endif  // HEDDLE_HAS_BENCH
