// Files that the runtime refuses, and says why: damaged ones, images that do not fit, other drivers, golden vectors.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/dialect/print_options.h"
#include "heddle/core/functions/functions.h"
#include "tests/runtime/through_c.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::test {
namespace {

class RuntimeFiles : public RuntimeTest {};

TEST_P(RuntimeFiles, AnotherDriverLoadsTheTextWhereThePlanFits) {
  const FunctionsOn functions = zoo()[0].functions;
  const std::string file = written(functions), other = folder / "other.heddle";
  const Golden given = golden_of(dev(), functions(dev())[0], 3);
  const std::vector<Bytes> wanted = run_compiled(dev(), functions(dev())[0], given);
  const auto expect_runs = [&] {
    const Opened opened(other, GetParam());
    ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
    EXPECT_EQ(run_through_c(opened.model, given), wanted);
  };
  change_image(file, other, [](ModelImage& image) { image.image.driver_hash ^= 1; });
  expect_runs();
  // Programs that the driver refuses.
  change_image(file, other, [](ModelImage& image) {
    for (Bytes& program : image.programs) program = {1, 2, 3};
  });
  expect_runs();
  change_image(file, other, [](ModelImage& image) {
    image.image.driver_hash ^= 1;
    image.needs.shared_bytes = 1u << 30;
  });
  expect_refused(other, HEDDLE_NO_IMAGE, "it was planned for shared bytes");
  rewrite(file, other, [](ModelPart& part, Bytes&) {
    if (part.kind == PartKind::image) part.target = "cuda:sm_80";
  });
  expect_refused(other, HEDDLE_NO_IMAGE, "it has images for cuda:sm_80");
}

// Kernels of f32 leave the units of CPUs' cores alone.
TEST_P(RuntimeFiles, UnitsAreNeededWhereTheyAreUsed) {
  const std::string file = written(zoo()[0].functions), other = folder / "other.heddle";
  change_image(file, other, [](ModelImage& image) {
    EXPECT_EQ(image.needs.machine == Machine::cpu_loops && !image.needs.matrix_units.empty(), false);
    image.image.driver_hash ^= 1;
    image.needs.matrix_units = "of another machine";
  });
  expect_refused(other, HEDDLE_NO_IMAGE, "it was planned for matrix units of another machine");
  Caps plain, units;
  plain.target = units.target = Target::opencl;
  units.matrix_units = core_tiles_bf16;
  EXPECT_EQ(needs_complaint(needs_of(plain), units), "");
  EXPECT_NE(needs_complaint(needs_of(units), plain), "");
}

TEST_P(RuntimeFiles, GoldenVectorsThatDifferRefuseTheFile) {
  const std::string file = written(zoo()[0].functions, &device("reference:0")), other = folder / "other.heddle";
  EXPECT_EQ(Opened(file, GetParam()).status, HEDDLE_OK);
  rewrite(file, other, [](ModelPart& part, Bytes& bytes) {
    if (part.kind != PartKind::golden) return;
    Golden golden = golden_from_bytes(bytes);
    const float wrong = 1000;
    std::memcpy(golden.outputs[0].bytes.data() + 13 * sizeof(float), &wrong, sizeof(wrong));
    bytes = golden_bytes(golden);
  });
  expect_refused(other, HEDDLE_MISMATCH, "output y[1, 3] is ");
  EXPECT_EQ(Opened(other, GetParam(), HEDDLE_TRUST_FILE).status, HEDDLE_OK);
}

TEST_P(RuntimeFiles, ImagesThatDoNotFitTheirFileAreRefused) {
  const std::string file = written(zoo()[0].functions), other = folder / "other.heddle";
  const std::pair<const char*, std::function<void(ModelImage&)>> cases[] = {
      {"lie outside of the weights", [](ModelImage& m) { m.weights[0].offset = ~uint64_t{0} - 3; }},
      {"lie outside of the weights", [](ModelImage& m) { m.weights[0].bytes = uint64_t{1} << 60; }},
      {"has no weights 'elsewhere'", [](ModelImage& m) { m.weights[0].part = "elsewhere"; }},
      {"is filled twice", [](ModelImage& m) { m.weights[1].slot = m.weights[0].slot; }},
      {"a storage that is not there", [](ModelImage& m) { m.weights[0].slot = 1 << 30; }},
      {"a storage that nothing fills", [](ModelImage& m) { m.weights.pop_back(); }},
      {"bytes of the",
       [](ModelImage& m) {
         m.inputs[0].shape = {1, 1};
       }},
      {"a shape that there is not",
       [](ModelImage& m) {
         m.inputs[0].shape = {1 << 30, 1 << 30, 1 << 30};
       }},
      {"a shape that there is not",
       [](ModelImage& m) {
         m.inputs[0].shape = {-4, 20};
       }},
      {"is not there", [](ModelImage& m) { m.outputs[0].index = 7; }},
      {"another shape", [](ModelImage& m) { m.outputs[0].shape = {40}; }},
      {"lies outside", [](ModelImage& m) { m.image.outputs[0].view.offset = int64_t{1} << 50; }},
      {"words for them", [](ModelImage& m) { m.host_words.push_back(0); }},
      {"programs for", [](ModelImage& m) { m.programs.assign(77, {1}); }},
      {"overwrites", [](ModelImage& m) { m.image.assigned = {0}; }},
      {"waits for others",
       [](ModelImage& m) {
         m.image.launches.push_back(m.image.launches.back());  // a chain may have left a single one: nothing to cut
         m.image.cuts = {1};
       }},
  };
  for (const auto& [text, change] : cases) {
    SCOPED_TRACE(text);
    change_image(file, other, change);
    expect_refused(other, HEDDLE_BAD_FILE, text);
  }
}

TEST_P(RuntimeFiles, DamagedFilesAreRefused) {
  const std::string file = written(zoo()[0].functions, &device("reference:0")), other = folder / "other.heddle";
  const Bytes whole = read_bytes(file);
  for (size_t at = 0; at < whole.size(); at += whole.size() / 150 + 1) {
    Bytes changed = whole;
    changed[at] ^= 0x20;
    write_bytes(other, changed);
    EXPECT_EQ(Opened(other, GetParam()).status, HEDDLE_BAD_FILE) << at;
    changed = whole;
    changed.resize(at);
    write_bytes(other, changed);
    EXPECT_EQ(Opened(other, GetParam()).status, HEDDLE_BAD_FILE) << at;
  }
}

TEST_P(RuntimeFiles, WhatCannotBeWrittenIsRefused) {
  const auto function = [&](std::function<Tensor(const Tensor&)> f) {
    ModelFunction made;
    made.inputs = {{"x", DType::f32, {4}}};
    made.outputs = {"y"};
    made.call = [f](const std::vector<Tensor>& x) { return std::vector<Tensor>{f(x[0])}; };
    return [made](DeviceContext&) { return std::vector<ModelFunction>{made}; };
  };
  const auto refused = [&](std::function<Tensor(const Tensor&)> f, std::initializer_list<const char*> parts) {
    tests::expect_error<ValueError>([&] { written(function(f)); }, parts);
  };
  refused([&](const Tensor& x) { return x + uniform({4}, 0, 1, &dev()); }, {"[compile]", "random"});
  refused([](const Tensor& x) { return x * x.to_vector<float>()[0]; }, {"[compile]", "cannot be written"});
  Tensor state = zeros({4}, DType::f32, &dev());
  eval({state});
  refused(
      [&](const Tensor& x) {
        state.assign(state + x);
        return state * 2.0;
      },
      {"[compile]", "cannot be written"});
}

INSTANTIATE_TEST_SUITE_P(Devices, RuntimeFiles, ::testing::ValuesIn(kernel_devices()), device_name);

TEST(RuntimeGolden, ValuesAreComparedByTheirTypes) {
  const auto value = [](DType dtype, const std::vector<double>& numbers) {
    Golden::Value made{"y", dtype, {static_cast<int64_t>(numbers.size())}, Bytes(numbers.size() * size_of(dtype))};
    for (size_t i = 0; i < numbers.size(); ++i) store_element(made.bytes.data(), dtype, i, numbers[i]);
    return made;
  };
  const Golden golden{"reference:0", 1, {}, {}};
  const auto difference = [&](DType dtype, const std::vector<double>& wanted, const std::vector<double>& found) {
    return golden_difference(golden, value(dtype, wanted), value(dtype, found).bytes);
  };
  const double nan = std::nan(""), infinity = HUGE_VAL;
  EXPECT_EQ(difference(DType::f32, {1, 100}, {1.05, 100.05}), "");
  EXPECT_TRUE(contains(difference(DType::f32, {1, 100}, {1.2, 100}), "output y[0] is 1.2"));
  EXPECT_EQ(difference(DType::f32, {nan, infinity}, {nan, infinity}), "");
  EXPECT_NE(difference(DType::f32, {nan, 1}, {0, 1}), "");
  EXPECT_NE(difference(DType::f32, {infinity, 1}, {-infinity, 1}), "");
  EXPECT_EQ(difference(DType::f16, {1, 2}, {1.02, 2}), "");
  EXPECT_NE(difference(DType::i32, {5, 7}, {5, 8}), "");
  EXPECT_NE(difference(DType::boolean, {1}, {0}), "");
  EXPECT_NE(golden_difference(golden, value(DType::f32, {1}), {}), "");
}

}  // namespace
}  // namespace heddle::test
