// DLPack on the devices of this machine: the library's tensors and the runtime's inputs and outputs over memory of
// others, and what is refused. Structs by hand; the checks of single fields are in tests/unit/dlpack_test.cpp.
#include "heddle/core/graph/dlpack.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>
#include <vector>

#include "heddle/core/device/adopted.h"
#include "heddle/core/functions/functions.h"
#include "tests/runtime/through_c.h"
#include "tests/support/devices.h"
#include "tests/support/dlpack_producer.h"

namespace heddle::test {
namespace {

DLManagedTensorVersioned* c_struct(DlManagedTensorVersioned& tensor) {
  return reinterpret_cast<DLManagedTensorVersioned*>(&tensor);
}
DLManagedTensor* c_struct(DlManagedTensor& tensor) { return reinterpret_cast<DLManagedTensor*>(&tensor); }

class Dlpack : public RuntimeTest {
 protected:
  // y = 2 x + 1 of {4, 8}, its transpose, the input itself, x where the mask is set, and of five bf16 their double.
  FunctionsOn functions() {
    return [](DeviceContext&) {
      ModelFunction made;
      made.inputs = {{"x", DType::f32, {4, 8}}, {"mask", DType::boolean, {4, 8}}, {"b", DType::bf16, {5}}};
      made.outputs = {"y", "turned", "same", "masked", "twice"};
      made.call = [](const std::vector<Tensor>& in) {
        const Tensor& x = in[0];
        return std::vector<Tensor>{x * 2.0 + 1.0, transpose(x * 3.0), x, where(in[1], x, 0.0 * x), in[2] + in[2]};
      };
      return std::vector<ModelFunction>{made};
    };
  }
  bool shared() { return has_host_memory(dev()) && adopts(); }
  bool adopts() {
    std::vector<float> memory(4096);
    return adopt_memory(dev(), memory.data(), memory.size() * 4, HostUse::read, [] {}).storage != nullptr;
  }
  std::vector<float> output(heddle_model* model, uint32_t index) {
    std::vector<float> values(32);
    EXPECT_EQ(heddle_output(model, index, values.data(), 128), HEDDLE_OK) << heddle_error(model);
    return values;
  }
  static std::vector<float> affine(const float* x, float a, float b) {
    std::vector<float> values(x, x + 32);
    for (float& v : values) v = a * v + b;
    return values;
  }
};

TEST_P(Dlpack, TensorsShareMemoryAtAnyAddress) {
  for (const size_t shift : {0u, 16u, 4u, 60u, 4080u}) {
    DlpackProducer producer(counted(3000), shift);
    producer.set({100, 20}, {25, 1}, 8);
    std::string copied = "unset";
    std::optional<Tensor> x = from_dlpack(&producer.managed, &dev(), &copied);
    EXPECT_EQ(copied.empty(), shared()) << copied;
    const Tensor row = *x * 2.0;
    EXPECT_EQ(row.to_vector<float>()[21], 2.f * 28);
    if (shared()) {
      producer.values[28] = -5;
      EXPECT_EQ((*x + 1.0).to_vector<float>()[21], -4);
    }
    const Tensor later = flip(*x, {0}) + 1.0;  // pending, while the last handle goes
    x.reset();
    EXPECT_EQ(later.to_vector<float>()[19], 99 * 25 + 2 + 19 + 1);
  }
  DlpackProducer backwards(counted(64));
  backwards.set({4}, {-3}, 40);
  EXPECT_EQ((from_dlpack(&backwards.old, &dev()) * 1.0).to_vector<float>(), (std::vector<float>{10, 7, 4, 1}));
}

TEST_P(Dlpack, GivenBackOnceFromAnotherThread) {
  DlpackProducer producer(counted(1024));
  std::optional<Tensor> x = from_dlpack(&producer.managed, &dev());
  const std::vector<float> sums = (*x + *x).to_vector<float>();
  EXPECT_EQ(sums[1023], 2046);
  EXPECT_EQ(producer.given_back, shared() ? 0 : 1);
  std::thread([&] { x.reset(); }).join();
  EXPECT_EQ(producer.given_back, 1);
}

TEST_P(Dlpack, TensorsAreHandedOut) {
  DlManagedTensorVersioned* handed = nullptr;
  std::string copied;
  {
    const Tensor x = arange(0, 24, 1, DType::f32, &dev()).reshape({4, 6});
    handed = to_dlpack(transpose(x) + 1.0, &copied);
  }
  EXPECT_EQ(copied.empty(), has_host_memory(dev())) << copied;
  const auto* const data = static_cast<const float*>(handed->tensor.data);
  for (int64_t i = 0; i < 6; ++i) {
    for (int64_t j = 0; j < 4; ++j)
      EXPECT_EQ(data[i * handed->tensor.strides[0] + j * handed->tensor.strides[1]], static_cast<float>(6 * j + i + 1));
  }
  std::thread([&] { handed->deleter(handed); }).join();
  // What the device uploads late is there, too.
  const Tensor uploaded = Tensor::from_vector(counted(100), {100}, &dev());
  DlManagedTensor* const old = to_dlpack_unversioned(uploaded);
  EXPECT_EQ(static_cast<const float*>(old->tensor.data)[99], 99);
  old->deleter(old);
}

// Every dtype there and back, over the device's memory.
TEST_P(Dlpack, EachDTypeComesBack) {
  for (int t = 0; t < dtype_count; ++t) {
    const auto dtype = static_cast<DType>(t);
    if (dtype == DType::f64 && !dev().caps().f64) continue;
    const Tensor x = Tensor::from_vector(std::vector<float>{0, 1, 1, 0, 1, 0, 1}, {7}, &dev()).to(dtype);
    EXPECT_EQ(from_dlpack(to_dlpack_unversioned(x), &dev()).to_bytes(), x.to_bytes()) << name_of(dtype);
  }
}

TEST_P(Dlpack, InputsReadWhereTheTensorLies) {
  const Opened opened(written(functions(), &device("reference:0")), GetParam());
  ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
  heddle_model* const model = opened.model;
  DlpackProducer x(counted(32), 16), mask(counted(8)), again(counted(32));
  const unsigned flags = shared() ? HEDDLE_NO_COPY : 0;
  x.set({4, 8}, {8, 1});
  x.managed.flags = dl_read_only;  // which an input may be
  ASSERT_EQ(heddle_input_dlpack(model, 0, c_struct(x.managed), flags), HEDDLE_OK) << heddle_error(model);
  EXPECT_EQ(std::string(heddle_copied(model)).empty(), shared()) << heddle_copied(model);
  mask.bytes.assign(mask.bytes.size(), 2);
  mask.managed.tensor.dtype = {6, 8, 1};
  mask.set({4, 8}, {});
  EXPECT_EQ(heddle_input_dlpack(model, 1, c_struct(mask.managed), HEDDLE_NO_COPY), HEDDLE_WOULD_COPY);
  EXPECT_EQ(mask.given_back, 0);
  EXPECT_EQ(heddle_input_dlpack(model, 1, c_struct(mask.managed), 0), HEDDLE_OK) << heddle_error(model);
  EXPECT_EQ(mask.given_back, 1);
  EXPECT_EQ(std::string(heddle_copied(model)),
            shared() ? "bools are checked" : "the device's memory is not the host's");
  const Bytes five(10, 0);
  EXPECT_EQ(heddle_input(model, 2, five.data(), 10), HEDDLE_OK);
  for (int run = 0; run < 3; ++run) {
    if (shared()) x.values[5] = static_cast<float>(100 * run);
    ASSERT_EQ(heddle_run(model), HEDDLE_OK) << heddle_error(model);
    EXPECT_EQ(output(model, 0), affine(x.values, 2, 1));
    EXPECT_EQ(output(model, 2), affine(x.values, 1, 0));  // an output that is an input
    EXPECT_EQ(output(model, 3), affine(x.values, 1, 0));
  }
  // The same memory under another tensor: the first one goes.
  ASSERT_EQ(heddle_input_dlpack_unversioned(model, 0, c_struct(x.old), flags), HEDDLE_OK) << heddle_error(model);
  EXPECT_EQ(x.given_back, shared() ? 1 : 2);
  again.values[7] = 77;
  again.set({4, 8}, {1, 4});  // columns: a copy
  EXPECT_EQ(heddle_input_dlpack(model, 0, c_struct(again.managed), HEDDLE_NO_COPY), HEDDLE_WOULD_COPY);
  EXPECT_EQ(heddle_input_dlpack(model, 0, c_struct(again.managed), 0), HEDDLE_OK) << heddle_error(model);
  EXPECT_EQ(again.given_back, 1);
  EXPECT_EQ(x.given_back, 2);
  ASSERT_EQ(heddle_run(model), HEDDLE_OK) << heddle_error(model);
  EXPECT_EQ(output(model, 0)[1 * 8 + 0], 2 * 1 + 1.f);
  EXPECT_EQ(output(model, 0)[3 * 8 + 1], 2 * 77 + 1.f);
  EXPECT_EQ(heddle_input(model, 0, x.values, 128), HEDDLE_OK);
  ASSERT_EQ(heddle_run(model), HEDDLE_OK) << heddle_error(model);
  EXPECT_EQ(output(model, 0), affine(x.values, 2, 1));
}

TEST_P(Dlpack, AModelGivesBackWhatItStillHas) {
  DlpackProducer x(counted(32)), y(counted(32));
  x.set({4, 8}, {});
  y.set({4, 8}, {});
  {
    const Opened opened(written(functions()), GetParam());
    ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
    EXPECT_EQ(heddle_input_dlpack(opened.model, 0, c_struct(x.managed), 0), HEDDLE_OK);
    if (shared()) {
      EXPECT_EQ(heddle_output_into(opened.model, 0, c_struct(y.managed)), HEDDLE_OK) << heddle_error(opened.model);
    }
    EXPECT_EQ(x.given_back, shared() ? 0 : 1);
    EXPECT_EQ(y.given_back, 0);
  }
  EXPECT_EQ(x.given_back, 1);
  EXPECT_EQ(y.given_back, shared() ? 1 : 0);
}

TEST_P(Dlpack, OutputsAreWrittenWhereTheTensorLies) {
  const Opened opened(written(functions()), GetParam());
  ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
  heddle_model* const model = opened.model;
  DlpackProducer x(counted(32)), y(std::vector<float>(32, -1));
  x.set({4, 8}, {});
  y.set({4, 8}, {});
  const Bytes mask(32, 1), five(10, 0);
  ASSERT_EQ(heddle_input_dlpack(model, 0, c_struct(x.managed), 0), HEDDLE_OK);
  ASSERT_EQ(heddle_input(model, 1, mask.data(), 32), HEDDLE_OK);
  ASSERT_EQ(heddle_input(model, 2, five.data(), 10), HEDDLE_OK);
  if (!shared()) {
    EXPECT_EQ(heddle_output_into(model, 0, c_struct(y.managed)), HEDDLE_WOULD_COPY);
    return;
  }
  ASSERT_EQ(heddle_output_into(model, 0, c_struct(y.managed)), HEDDLE_OK) << heddle_error(model);
  EXPECT_EQ(heddle_output(model, 0, y.values, 128), HEDDLE_BAD_ARGUMENT);  // it has not run since
  for (int run = 0; run < 2; ++run) {
    x.values[3] = static_cast<float>(7 * run);
    ASSERT_EQ(heddle_run(model), HEDDLE_OK) << heddle_error(model);
    EXPECT_EQ(output(model, 0), affine(x.values, 2, 1));
    EXPECT_EQ(std::vector<float>(y.values, y.values + 32), affine(x.values, 2, 1));
  }
  EXPECT_EQ(y.values[32], 0);  // nothing beyond
  EXPECT_EQ(y.given_back, 0);
  EXPECT_EQ(heddle_output_into(model, 0, nullptr), HEDDLE_OK);
  EXPECT_EQ(y.given_back, 1);
  y.values[0] = 99;
  ASSERT_EQ(heddle_run(model), HEDDLE_OK) << heddle_error(model);
  EXPECT_EQ(y.values[0], 99);
  EXPECT_EQ(output(model, 0), affine(x.values, 2, 1));
}

TEST_P(Dlpack, OutputsThatCannotBeWrittenThere) {
  if (!shared()) GTEST_SKIP() << "nothing is written to memory of others";
  const Opened opened(written(functions()), GetParam());
  ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
  heddle_model* const model = opened.model;
  const auto refused = [&](uint32_t index, DlpackProducer& p, heddle_status status, const char* why) {
    EXPECT_EQ(heddle_output_into(model, index, c_struct(p.managed)), status);
    EXPECT_TRUE(contains(heddle_error(model), why)) << heddle_error(model);
    EXPECT_EQ(p.given_back, 0);
  };
  DlpackProducer x(counted(64)), y(counted(64), 4), wide(counted(64)), five(counted(8));
  x.set({4, 8}, {});
  ASSERT_EQ(heddle_input_dlpack(model, 0, c_struct(x.managed), 0), HEDDLE_OK);
  x.managed.deleter = [](DlManagedTensorVersioned*) {};
  refused(0, x, HEDDLE_BAD_ARGUMENT, "the memory is also that of input x");
  wide.set({4, 8}, {16, 1});
  refused(0, wide, HEDDLE_WOULD_COPY, "are not dense");
  wide.set({4, 8}, {});
  refused(2, wide, HEDDLE_WOULD_COPY, "an input or a constant");
  wide.managed.flags = dl_read_only;
  refused(0, wide, HEDDLE_BAD_ARGUMENT, "read-only");
  five.managed.tensor.dtype = {4, 16, 1};
  five.set({5}, {});
  refused(4, five, HEDDLE_WOULD_COPY, "beyond its last element");
  y.set({4, 8}, {});
  refused(0, y, HEDDLE_WOULD_COPY, "takes no memory there");
}

TEST_P(Dlpack, OutputsAreHandedOut) {
  std::optional<Opened> opened;
  opened.emplace(written(functions()), GetParam());
  ASSERT_EQ(opened->status, HEDDLE_OK) << opened->why;
  heddle_model* const model = opened->model;
  DLManagedTensorVersioned* made = nullptr;
  EXPECT_EQ(heddle_output_dlpack(model, 0, 0, &made), HEDDLE_BAD_ARGUMENT);
  const std::vector<float> x = counted(32);
  const Bytes mask(32, 1), five = {0x80, 0x3f, 0, 0, 0, 0, 0, 0, 0x20, 0x40};  // 1, 0, 0, 0, 2.5
  ASSERT_EQ(heddle_input(model, 0, x.data(), 128), HEDDLE_OK);
  ASSERT_EQ(heddle_input(model, 1, mask.data(), 32), HEDDLE_OK);
  ASSERT_EQ(heddle_input(model, 2, five.data(), 10), HEDDLE_OK);
  ASSERT_EQ(heddle_run(model), HEDDLE_OK);
  const unsigned flags = has_host_memory(dev()) ? HEDDLE_NO_COPY : 0;
  std::vector<DlManagedTensorVersioned*> handed;
  for (uint32_t i = 0; i < 5; ++i) {
    ASSERT_EQ(heddle_output_dlpack(model, i, flags, &made), HEDDLE_OK) << heddle_error(model);
    handed.push_back(reinterpret_cast<DlManagedTensorVersioned*>(made));
    EXPECT_EQ(std::string(heddle_copied(model)).empty(), has_host_memory(dev()));
    EXPECT_EQ(handed[i]->flags & dl_read_only, dl_read_only);
  }
  opened.reset();  // they outlive the model
  const auto at = [&](size_t i, int64_t row, int64_t column) {
    const DlTensor& t = handed[i]->tensor;
    return static_cast<const float*>(t.data)[row * t.strides[0] + column * t.strides[1]];
  };
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      const auto value = static_cast<float>(8 * i + j);
      EXPECT_EQ(at(0, i, j), 2 * value + 1);
      EXPECT_EQ(at(1, j, i), 3 * value);
      EXPECT_EQ(at(2, i, j), value);
      EXPECT_EQ(at(3, i, j), value);
    }
  }
  EXPECT_EQ(static_cast<const uint16_t*>(handed[4]->tensor.data)[4], 0x40a0);
  EXPECT_EQ(handed[4]->tensor.dtype.code, 4);
  for (DlManagedTensorVersioned* tensor : handed) std::thread([tensor] { tensor->deleter(tensor); }).join();
}

TEST_P(Dlpack, WrongTensorsAreAnsweredAndStayTheCallers) {
  const Opened opened(written(functions()), GetParam());
  ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
  heddle_model* const model = opened.model;
  const auto refused = [&](auto change, const char* why, unsigned flags = 0) {
    DlpackProducer p(counted(64));
    p.set({4, 8}, {});
    change(p);
    EXPECT_EQ(heddle_input_dlpack(model, 0, c_struct(p.managed), flags), HEDDLE_BAD_ARGUMENT);
    EXPECT_TRUE(contains(heddle_error(model), why)) << heddle_error(model);
    EXPECT_EQ(p.given_back, 0);
  };
  refused([](DlpackProducer& p) { p.managed.tensor.dtype = {0, 32, 1}; }, "x is f32 (4, 8), the tensor i32 (4, 8)");
  refused([](DlpackProducer& p) { p.set({8, 4}, {}); }, "x is f32 (4, 8), the tensor f32 (8, 4)");
  refused([](DlpackProducer& p) { p.set({32}, {}); }, "the tensor f32 (32)");
  refused([](DlpackProducer& p) { p.managed.tensor.device.type = 2; }, "of a device of type 2");
  refused([](DlpackProducer& p) { p.managed.version.major = 9; }, "DLPack 9.0");
  refused([](DlpackProducer& p) { p.managed.tensor.data = nullptr; }, "there is no memory");
  refused([](DlpackProducer& p) { p.managed.tensor.dtype.lanes = 2; }, "vectors of 2 lanes");
  refused([](DlpackProducer&) {}, "unknown flags", 8);
  DlpackProducer p(counted(64));
  DLManagedTensor* made = nullptr;
  EXPECT_EQ(heddle_input_dlpack(model, 0, nullptr, 0), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_input_dlpack(model, 7, c_struct(p.managed), 0), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_input_dlpack(nullptr, 0, c_struct(p.managed), 0), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_output_into(model, 9, nullptr), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_output_dlpack_unversioned(model, 0, 0, nullptr), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_output_dlpack_unversioned(nullptr, 0, 0, &made), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(p.given_back, 0);
}

INSTANTIATE_TEST_SUITE_P(Devices, Dlpack, ::testing::ValuesIn(kernel_devices()), device_name);

}  // namespace
}  // namespace heddle::test
