// DLPack: arrays of a producer in C's manner, taken with and without a copy; Tensors handed out; what is refused.
#include "heddle/core/graph/dlpack.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/dlpack_producer.h"

namespace heddle {
namespace {

DeviceContext& host() { return device("reference:0"); }
DeviceContext& null() { return device("null:0"); }

using Producer = test::DlpackProducer;
std::vector<float> numbers(size_t count) { return test::counted(count); }

TEST(DlpackIn, SharesTheMemoryUntilTheLastTensorGoes) {
  Producer producer(numbers(6));
  std::string copied = "unset";
  {
    std::optional<Tensor> first = from_dlpack(&producer.managed, &host(), &copied);
    EXPECT_EQ(copied, "");
    const Tensor second = *first, sum = *first + 1.0;
    EXPECT_EQ(first->to_vector<float>(), numbers(6));
    producer.values[2] = 70;  // the same memory
    EXPECT_EQ(second.to_vector<float>(), (std::vector<float>{0, 1, 70, 3, 4, 5}));
    EXPECT_EQ(sum.to_vector<float>(), (std::vector<float>{1, 2, 71, 4, 5, 6}));
    first.reset();
    EXPECT_EQ(producer.given_back, 0);
  }
  EXPECT_EQ(producer.given_back, 1);
}

TEST(DlpackIn, StridesAndOffsets) {
  struct Case {
    std::vector<int64_t> shape, strides;
    uint64_t byte_offset;
    std::vector<float> expected;
  };
  const std::vector<Case> cases = {{{2, 3}, {}, 0, {0, 1, 2, 3, 4, 5}}, {{3, 2}, {1, 3}, 0, {0, 3, 1, 4, 2, 5}},
                                   {{2, 2}, {3, 1}, 16, {4, 5, 7, 8}},  {{3}, {-2}, 32, {8, 6, 4}},
                                   {{2, 2}, {-4, 1}, 20, {5, 6, 1, 2}}, {{2, 3}, {0, 1}, 4, {1, 2, 3, 1, 2, 3}},
                                   {{1, 2}, {1000, 1}, 0, {0, 1}},      {{}, {}, 12, {3}}};
  for (DeviceContext* target : {&host(), &null()}) {
    for (const Case& one : cases) {
      Producer producer(numbers(12));
      producer.set(one.shape, one.strides, one.byte_offset);
      std::string copied;
      {
        const Tensor x = from_dlpack(&producer.managed, target, &copied);
        EXPECT_EQ(x.shape(), Shape(one.shape));
        EXPECT_EQ(copied.empty(), target == &host()) << copied;
        if (target == &host()) {
          EXPECT_EQ(x.to_vector<float>(), one.expected);
        }
      }
      EXPECT_EQ(producer.given_back, 1);
    }
  }
}

TEST(DlpackIn, CopiesWithAReason) {
  const auto reason = [](Producer& producer, DeviceContext& target) {
    std::string copied;
    const Tensor x = from_dlpack(&producer.managed, &target, &copied);
    EXPECT_EQ(producer.given_back, 1);
    return copied;
  };
  Producer on_device(numbers(4)), fixed(numbers(4)), odd(numbers(4)), empty(numbers(4));
  EXPECT_EQ(reason(on_device, null()), "the device's memory is not the host's");
  fixed.managed.flags = dl_read_only;
  EXPECT_EQ(reason(fixed, host()), "the memory is read-only");
  odd.set({2}, {}, 5);
  EXPECT_EQ(reason(odd, host()), "the memory is not aligned to its elements");
  empty.set({0, 3}, {}, 0);
  empty.managed.tensor.data = nullptr;
  EXPECT_EQ(reason(empty, host()), "there are no elements");
}

TEST(DlpackIn, EachDType) {
  struct Case {
    DlDataType type;
    DType dtype;
    std::vector<uint8_t> bytes;
    std::vector<double> expected;
  };
  const std::vector<Case> cases = {
      {{2, 16, 1}, DType::f16, {0, 0x3c, 0, 0xc0}, {1, -2}},
      {{4, 16, 1}, DType::bf16, {0x80, 0x3f, 0, 0xc0}, {1, -2}},
      {{0, 8, 1}, DType::i8, {1, 0xff}, {1, -1}},
      {{1, 8, 1}, DType::u8, {1, 0xff}, {1, 255}},
      {{0, 32, 1}, DType::i32, {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, {1, -1}},
      {{2, 64, 1}, DType::f64, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0xc0}, {1, -2}},
      {{0, 64, 1},
       DType::i64,
       {1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
       {4294967297.0, -1}},
      {{6, 8, 1}, DType::boolean, {0, 7}, {0, 1}}};
  for (const Case& one : cases) {
    Producer producer(numbers(4));
    std::memcpy(producer.values, one.bytes.data(), one.bytes.size());
    producer.set({2}, {});
    producer.managed.tensor.dtype = one.type;
    std::string copied;
    const Tensor x = from_dlpack(&producer.managed, &host(), &copied);
    EXPECT_EQ(x.dtype(), one.dtype);
    EXPECT_EQ(x.to_doubles(), one.expected) << name_of(one.dtype);
    EXPECT_EQ(copied, one.dtype == DType::boolean ? "bools are checked" : "");
  }
}

TEST(DlpackIn, ACopyCanBeRefused) {
  Producer producer(numbers(4)), empty(numbers(4));
  EXPECT_THROW(from_dlpack(&producer.managed, &null(), nullptr, DlCopy::refused), CopyNeeded);
  producer.managed.flags = dl_read_only;
  EXPECT_THROW(from_dlpack(&producer.managed, &host(), nullptr, DlCopy::refused), CopyNeeded);
  EXPECT_EQ(producer.given_back, 0);
  producer.managed.flags = 0;
  EXPECT_EQ(from_dlpack(&producer.managed, &host(), nullptr, DlCopy::refused).to_vector<float>(), numbers(4));
  EXPECT_EQ(producer.given_back, 1);
  empty.set({0}, {});
  EXPECT_EQ(from_dlpack(&empty.managed, &null(), nullptr, DlCopy::refused).numel(), 0);
  EXPECT_THROW(to_dlpack(zeros({5}, DType::f32, &null()), nullptr, DlCopy::refused), CopyNeeded);
}

// What is refused stays the caller's.
TEST(DlpackIn, WhatNoTensorIsIsRefused) {
  constexpr int64_t huge = int64_t{1} << 61;
  const auto refused = [](auto change, auto error) {
    Producer producer(numbers(4));
    change(producer);
    EXPECT_THROW(from_dlpack(&producer.managed, &host()), decltype(error));
    EXPECT_EQ(producer.given_back, 0);
  };
  const ShapeError shape("");
  const DTypeError dtype("");
  const ValueError value("");
  refused([](Producer& p) { p.managed.tensor.ndim = -1; }, shape);
  refused([](Producer& p) { p.managed.tensor.ndim = 9; }, shape);
  refused([](Producer& p) { p.managed.tensor.shape = nullptr; }, shape);
  refused([](Producer& p) { p.set({-1}, {}); }, shape);
  refused([](Producer& p) { p.set({huge, huge}, {}); }, shape);
  refused([](Producer& p) { p.set({3}, {huge * 2}); }, shape);
  refused([](Producer& p) { p.set({2}, {huge}); }, shape);
  refused([](Producer& p) { p.set({2}, {-huge}); }, shape);
  refused([](Producer& p) { p.set({huge}, {0}); }, shape);  // of eight bytes each they would be 0
  refused([](Producer& p) { p.managed.tensor.dtype.lanes = 4; }, dtype);
  refused([](Producer& p) { p.managed.tensor.dtype = {5, 64, 1}; }, dtype);
  refused([](Producer& p) { p.managed.tensor.dtype = {2, 8, 1}; }, dtype);
  refused([](Producer& p) { p.managed.tensor.dtype = {3, 64, 1}; }, dtype);
  refused([](Producer& p) { p.managed.tensor.device.type = 2; }, value);
  refused([](Producer& p) { p.managed.tensor.data = nullptr; }, value);
  refused([](Producer& p) { p.set({2}, {}, UINT64_MAX - 7); }, value);  // beyond the last address
  refused([](Producer& p) { p.set({2}, {-(huge / 8)}, 0); }, value);    // before the first
  refused([](Producer& p) { p.set({2}, {huge / 8}, UINT64_MAX / 2); }, value);
  refused([](Producer& p) { p.managed.version.major = 2; }, value);
  EXPECT_THROW(from_dlpack(static_cast<DlManagedTensor*>(nullptr)), ValueError);
  EXPECT_THROW(from_dlpack(static_cast<DlManagedTensorVersioned*>(nullptr)), ValueError);
}

// One element, as often as somebody says: no memory is asked for.
TEST(DlpackIn, ACopyLargerThanTheDeviceIsRefused) {
  Producer producer(numbers(1));
  producer.set({int64_t{1} << 55}, {0});
  EXPECT_THROW(from_dlpack(&producer.managed, &null()), LimitError);
  producer.managed.flags = dl_read_only;
  EXPECT_THROW(from_dlpack(&producer.managed, &host()), LimitError);
  EXPECT_EQ(producer.given_back, 0);
}

TEST(DlpackOut, SharesTheMemoryUntilItIsGivenBack) {
  DlManagedTensorVersioned* handed = nullptr;
  std::string copied = "unset";
  {
    const Tensor x = Tensor::from_vector(numbers(6), {2, 3}, &host());
    handed = to_dlpack(x, &copied);
    DlManagedTensorVersioned* const again = to_dlpack(x);
    EXPECT_EQ(again->tensor.data, handed->tensor.data);
    again->deleter(again);
  }
  EXPECT_EQ(copied, "");
  EXPECT_EQ(handed->flags, dl_read_only);
  EXPECT_EQ(handed->version.major, 1u);
  EXPECT_EQ(handed->tensor.device.type, 1);
  EXPECT_EQ(handed->tensor.ndim, 2);
  EXPECT_EQ(handed->tensor.shape[0], 2);
  EXPECT_EQ(handed->tensor.shape[1], 3);
  const auto* const data = static_cast<const float*>(handed->tensor.data);
  for (int64_t i = 0; i < 2; ++i) {
    for (int64_t j = 0; j < 3; ++j)
      EXPECT_EQ(data[i * handed->tensor.strides[0] + j * handed->tensor.strides[1]], static_cast<float>(3 * i + j));
  }
  handed->deleter(handed);
}

// The value that was handed out is the one of that time.
TEST(DlpackOut, AnAssignmentGoesElsewhere) {
  Tensor x = Tensor::from_vector(numbers(3), {3}, &host());
  DlManagedTensor* const handed = to_dlpack_unversioned(x);
  x.assign(x + 10.0);
  EXPECT_EQ(x.to_vector<float>(), (std::vector<float>{10, 11, 12}));
  EXPECT_EQ(static_cast<const float*>(handed->tensor.data)[1], 1.f);
  handed->deleter(handed);
}

TEST(DlpackOut, CopiesWithAReason) {
  std::string copied;
  DlManagedTensorVersioned* const handed = to_dlpack(zeros({5}, DType::bf16, &null()), &copied);
  EXPECT_EQ(copied, "the value does not lie in the host's memory");
  EXPECT_EQ(handed->flags, dl_read_only | dl_copied);
  EXPECT_EQ(handed->tensor.dtype.code, 4);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(handed->tensor.data) % 256, 0u);
  handed->deleter(handed);
  EXPECT_THROW(to_dlpack(Tensor()), ValueError);
}

TEST(DlpackOut, ComesBack) {
  for (int t = 0; t < dtype_count; ++t) {
    const auto dtype = static_cast<DType>(t);
    const Tensor x = Tensor::from_vector(std::vector<float>{0, 1, 1, 0, 1, 0}, {2, 3}, &host()).to(dtype);
    const Tensor back = from_dlpack(to_dlpack_unversioned(x), &host()), empty = zeros({0, 2}, dtype, &host());
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.to_bytes(), x.to_bytes());
    EXPECT_EQ(from_dlpack(to_dlpack(empty), &host()).shape(), (Shape{0, 2}));
  }
  const Tensor scalar = Tensor::host_scalar(2.5f, &host());
  EXPECT_EQ(from_dlpack(to_dlpack(scalar), &host()).item(), 2.5);
}

}  // namespace
}  // namespace heddle
