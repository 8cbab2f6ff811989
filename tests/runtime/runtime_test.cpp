// Models through the C interface: the same bits as the library, nothing allocated in a run, drivers and golden vectors.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "heddle/core/compile/compile.h"
#include "heddle/core/contract/driver_programs.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/io/write_model_parts.h"
#include "heddle/runtime/heddle.h"
#include "heddle/runtime/model_target.h"
#include "tests/runtime/counted_new.h"
#include "tests/runtime/zoo.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::test {
namespace {

using Bytes = std::vector<uint8_t>;

// Parts of a file with some of them changed.
void rewrite(const std::string& from, const std::string& to, const std::function<void(ModelPart&, Bytes&)>& change) {
  const ModelParts parts = ModelParts::read(from);
  std::vector<ModelPart> made;
  std::vector<Bytes> bytes;
  bytes.reserve(parts.entries().size());
  for (const PartEntry& entry : parts.entries()) {
    const auto held = parts.bytes(entry);
    bytes.emplace_back(held.begin(), held.end());
    made.push_back({.name = entry.name,
                    .kind = entry.kind,
                    .target = entry.target,
                    .bucket = entry.bucket,
                    .attributes = entry.attributes});
    change(made.back(), bytes.back());
    made.back().bytes = bytes.back();
  }
  write_model_parts(to, made);
}

void change_image(const std::string& from, const std::string& to, const std::function<void(ModelImage&)>& change) {
  rewrite(from, to, [&](ModelPart& part, Bytes& bytes) {
    if (part.kind != PartKind::image) return;
    ModelImage image = model_image_from_bytes(bytes);
    change(image);
    bytes = model_image_bytes(image);
  });
}

struct Opened {
  Opened(const std::string& file, const std::string& device, unsigned flags = 0) {
    status = heddle_open(file.c_str(), device.c_str(), flags, &model);
    why = model == nullptr ? heddle_error(nullptr) : "";
  }
  ~Opened() { heddle_close(model); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  heddle_model* model = nullptr;
  heddle_status status;
  std::string why;
};

std::vector<Bytes> run_through_c(heddle_model* model, const Golden& given) {
  std::vector<Bytes> outputs;
  for (size_t i = 0; i < given.inputs.size(); ++i) {
    const Bytes& bytes = given.inputs[i].bytes;
    EXPECT_EQ(heddle_input(model, static_cast<uint32_t>(i), bytes.data(), bytes.size()), HEDDLE_OK)
        << heddle_error(model);
  }
  EXPECT_EQ(heddle_run(model), HEDDLE_OK) << heddle_error(model);
  heddle_port port;
  for (uint32_t i = 0; heddle_output_port(model, i, &port) == HEDDLE_OK; ++i) {
    outputs.emplace_back(port.bytes);
    EXPECT_EQ(heddle_output(model, i, outputs.back().data(), port.bytes), HEDDLE_OK) << heddle_error(model);
  }
  return outputs;
}

// What compile(f) gives from its third call on.
std::vector<Bytes> run_compiled(DeviceContext& device, const ModelFunction& function, const Golden& given) {
  std::vector<Tensor> inputs;
  for (const Golden::Value& value : given.inputs) {
    const Shape shape(value.shape);
    inputs.push_back(
        Tensor::from_bytes(value.bytes.data(), static_cast<size_t>(shape.numel()), value.dtype, shape, &device));
  }
  const auto compiled = compile([&](const std::vector<Tensor>& x) { return function.call(x); });
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) results = compiled(inputs);
  std::vector<Bytes> outputs;
  for (const Tensor& result : results) outputs.push_back(result.to_bytes());
  return outputs;
}

class RuntimeTest : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() { return device(GetParam()); }
  std::string written(const FunctionsOn& functions, DeviceContext* golden = nullptr) {
    const std::string path = folder / "net.heddle";
    write_compiled(path, functions, {&dev()}, golden);
    return path;
  }
  // It is refused, with that status and text.
  void expect_refused(const std::string& file, heddle_status status, const std::string& text) {
    const Opened opened(file, GetParam());
    EXPECT_EQ(opened.status, status) << opened.why;
    EXPECT_TRUE(contains(opened.why, text));
    EXPECT_EQ(opened.why.find('\n'), std::string::npos) << opened.why;
  }
  TemporaryFolder folder;
};

TEST_P(RuntimeTest, EveryModelOfTheZooGivesTheLibrarysBitsAndAllocatesNothing) {
  uint64_t arena = 0, values = 0;
  for (const ZooModel& model : zoo()) {
    SCOPED_TRACE(model.name);
    const std::string file = written(model.functions);
    const ModelParts parts = ModelParts::read(file);
    const ModelImage image = model_image_from_bytes(parts.bytes(parts.only(PartKind::image)));
    for (const uint64_t bytes : image.image.arena_bytes) arena += bytes;
    values += image.value_bytes;
    const ModelFunction function = model.functions(dev())[0];
    const Golden given = golden_of(dev(), function, 3);
    const std::vector<Bytes> wanted = run_compiled(dev(), function, given);
    const Opened opened(file, GetParam());
    ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
    EXPECT_EQ(run_through_c(opened.model, given), wanted);
    std::vector<Bytes> found = wanted;
    const uint64_t before = dev().memory().allocations;
    size_t taken = 0;
    // Of the first ones a driver that is slow to say that an upload has ended may make the next one take a staging
    // buffer more, which is kept.
    constexpr int first = 10, runs = 30;
    for (int i = 0; i < runs; ++i) {
      const CountedNew heap;
      for (size_t k = 0; k < given.inputs.size(); ++k)
        heddle_input(opened.model, static_cast<uint32_t>(k), given.inputs[k].bytes.data(),
                     given.inputs[k].bytes.size());
      heddle_run(opened.model);
      for (size_t k = 0; k < found.size(); ++k)
        heddle_output(opened.model, static_cast<uint32_t>(k), found[k].data(), found[k].size());
      if (i >= first) taken += heap.count();
    }
    EXPECT_EQ(dev().memory().allocations, before);
    EXPECT_EQ(taken, 0u);
    EXPECT_EQ(found, wanted);
  }
  std::printf("%s: arenas %llu of %llu bytes of values, %.2f\n", GetParam().c_str(),
              static_cast<unsigned long long>(arena), static_cast<unsigned long long>(values),
              static_cast<double>(arena) / static_cast<double>(values));
  EXPECT_LE(static_cast<double>(arena), 0.6 * static_cast<double>(values));
}

TEST_P(RuntimeTest, BucketsShareWeightsAndAreChosenByName) {
  const std::string file = written(two_buckets(), &device("reference:0"));
  const ModelParts parts = ModelParts::read(file);
  EXPECT_LT(parts.only(PartKind::weights).bytes, (20 * 64 + 64 + 64 * 10 + 10) * 4 + 4 * 64u);
  const Opened opened(file, GetParam());
  ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
  EXPECT_STREQ(heddle_bucket(opened.model, 0), "N=1");
  EXPECT_STREQ(heddle_bucket(opened.model, 1), "N=3");
  EXPECT_EQ(heddle_bucket(opened.model, 2), nullptr);
  for (const ModelFunction& function : two_buckets()(dev())) {
    const Golden given = golden_of(dev(), function, 5);
    ASSERT_EQ(heddle_use(opened.model, function.bucket.c_str()), HEDDLE_OK);
    EXPECT_EQ(run_through_c(opened.model, given), run_compiled(dev(), function, given)) << function.bucket;
  }
  EXPECT_EQ(heddle_use(opened.model, "N=2"), HEDDLE_BAD_ARGUMENT);
  EXPECT_TRUE(contains(heddle_error(opened.model), "no bucket 'N=2'"));
}

TEST_P(RuntimeTest, WrongCallsAreAnsweredAndHarmNothing) {
  const Opened opened(written(zoo()[0].functions), GetParam());
  ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
  std::vector<float> x(80), y(40);
  heddle_port port;
  EXPECT_EQ(heddle_abi(), HEDDLE_ABI);
  EXPECT_EQ(heddle_run(opened.model), HEDDLE_BAD_ARGUMENT);
  EXPECT_STREQ(heddle_error(opened.model), "input x was not given");
  EXPECT_EQ(heddle_output(opened.model, 0, y.data(), 160), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_input(opened.model, 0, x.data(), 319), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_input(opened.model, 0, nullptr, 320), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_input(opened.model, 1, x.data(), 320), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_input_port(opened.model, 1, &port), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_input_port(opened.model, 0, nullptr), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_use(opened.model, nullptr), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_done(opened.model, nullptr), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_run(nullptr), HEDDLE_BAD_ARGUMENT);
  EXPECT_EQ(heddle_open(nullptr, nullptr, 0, nullptr), HEDDLE_BAD_ARGUMENT);
  heddle_close(nullptr);
  EXPECT_EQ(heddle_input(opened.model, 0, x.data(), 320), HEDDLE_OK);
  EXPECT_EQ(heddle_run(opened.model), HEDDLE_OK);
  EXPECT_EQ(heddle_output(opened.model, 0, y.data(), 160), HEDDLE_OK);
  int done = 0;
  EXPECT_EQ(heddle_done(opened.model, &done), HEDDLE_OK);
  EXPECT_EQ(done, 1);
  const Opened other(folder / "net.heddle", "opencl:77"), flags(folder / "net.heddle", GetParam(), 64);
  EXPECT_EQ(other.status, HEDDLE_NO_DEVICE) << other.why;
  EXPECT_EQ(flags.status, HEDDLE_BAD_ARGUMENT) << flags.why;
  expect_refused(folder / "other.heddle", HEDDLE_NO_FILE, "no such file");
  expect_refused(folder.path(), HEDDLE_NO_FILE, "is a folder");
}

TEST_P(RuntimeTest, AnotherDriverLoadsTheTextWhereThePlanFits) {
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

TEST_P(RuntimeTest, GoldenVectorsThatDifferRefuseTheFile) {
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

TEST_P(RuntimeTest, ImagesThatDoNotFitTheirFileAreRefused) {
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
      {"waits for others", [](ModelImage& m) { m.image.cuts = {1}; }},
  };
  for (const auto& [text, change] : cases) {
    SCOPED_TRACE(text);
    change_image(file, other, change);
    expect_refused(other, HEDDLE_BAD_FILE, text);
  }
}

TEST_P(RuntimeTest, DamagedFilesAreRefused) {
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

TEST_P(RuntimeTest, WhatCannotBeWrittenIsRefused) {
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

// A value that is there, a view of an input, and an input that nothing reads.
TEST_P(RuntimeTest, OutputsMayBeInputsAndConstants) {
  const Tensor constant = arange(0, 6, 1, DType::f32, &dev());
  eval({constant});
  ModelFunction made;
  made.inputs = {{"x", DType::f32, {2, 3}}, {"unused", DType::i64, {2}}};
  made.outputs = {"same", "turned", "constant"};
  made.call = [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{x[0], transpose(x[0]), constant}; };
  const Golden given = golden_of(dev(), made, 3);
  const Opened opened(written([&](DeviceContext&) { return std::vector<ModelFunction>{made}; }), GetParam());
  ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
  const std::vector<Bytes> found = run_through_c(opened.model, given);
  ASSERT_EQ(found.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], given.outputs[i].bytes) << i;
}

FunctionsOn wide_product() {
  return [](DeviceContext& device) {
    Generator generator{5};
    const Tensor w = uniform({512, 512}, -1, 1, &device, &generator);
    eval({w});
    ModelFunction made;
    made.inputs = {{"x", DType::f32, {1, 512}}};
    made.outputs = {"y"};
    made.call = [w](const std::vector<Tensor>& x) { return std::vector<Tensor>{matmul(x[0], w)}; };
    return std::vector<ModelFunction>{made};
  };
}

TEST_P(RuntimeTest, WeightsStayInTheFileWhereTheDriverTakesThemThere) {
  const FunctionsOn functions = wide_product();
  const std::string file = written(functions);
  constexpr uint64_t weights = 512 * 512 * 4;
  const Golden given = golden_of(dev(), functions(dev())[0], 3);
  const std::vector<Bytes> wanted = run_compiled(dev(), functions(dev())[0], given);
  const uint64_t before = dev().memory().live_bytes;
  const Opened opened(file, GetParam());
  ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
  const uint64_t taken = dev().memory().live_bytes - before;
  if (dynamic_cast<ConstantMemory*>(&dev().lock().device) != nullptr && dev().caps().device_class == DeviceClass::cpu)
    EXPECT_LT(taken, weights / 2);
  else
    EXPECT_GE(taken, weights);
  EXPECT_EQ(run_through_c(opened.model, given), wanted);
}

// Each thread has models of its own; they share the device.
TEST_P(RuntimeTest, ModelsOfSeveralThreadsShareADevice) {
  const std::string file = written(zoo()[1].functions);
  const ModelFunction function = zoo()[1].functions(dev())[0];
  const Golden given[] = {golden_of(dev(), function, 3), golden_of(dev(), function, 4)};
  const std::vector<Bytes> wanted[] = {run_compiled(dev(), function, given[0]),
                                       run_compiled(dev(), function, given[1])};
  std::vector<std::thread> threads;
  std::atomic<int> right = 0;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Opened opened(file, GetParam());
      ASSERT_EQ(opened.status, HEDDLE_OK) << opened.why;
      for (int i = 0; i < 25; ++i) right += run_through_c(opened.model, given[t % 2]) == wanted[t % 2];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 100);
}

// Nothing but libheddle_runtime, in a process of its own.
TEST_P(RuntimeTest, AProgramInCGivesTheLibrarysBits) {
  const FunctionsOn functions = zoo()[2].functions;
  const std::string file = written(functions, &device("reference:0"));
  const Golden given = golden_of(dev(), functions(dev())[0], 3);
  write_bytes(folder / "in", given.inputs[0].bytes);
  const std::string command = std::string(HEDDLE_RUN_MODEL) + " " + file + " " + GetParam() + " " + (folder / "out") +
                              " " + (folder / "in") + " > " + (folder / "said");
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_EQ(read_bytes(folder / "out"), run_compiled(dev(), functions(dev())[0], given)[0]);
  EXPECT_TRUE(contains(read_text(folder / "said"), "input x: type 0, 2048 bytes, shape 2 1 16 16"));
}

INSTANTIATE_TEST_SUITE_P(Devices, RuntimeTest, ::testing::ValuesIn(kernel_devices()), [](const auto& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

// What libheddle_runtime must not hold: a compiler, a graph, gradients.
TEST(Runtime, TheSmallLibraryHasLoadersAlone) {
  const TemporaryFolder folder;
  const std::string list = folder / "symbols";
  if (std::system(("nm -C --defined-only " HEDDLE_RUNTIME_LIBRARY " > " + list + " 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "no nm";
  const std::string symbols = read_text(list);
  EXPECT_TRUE(contains(symbols, "heddle_open"));
  for (const char* foreign :
       {"glslang", "nvrtcCompileProgram", "heddle::print(", "heddle::Tensor::", "heddle::backward", "heddle::capture(",
        "heddle::CompiledGraph", "heddle::nn::", "heddle::make_node"})
    EXPECT_EQ(symbols.find(foreign), std::string::npos) << foreign;
}

TEST(Runtime, GoldenValuesAreComparedByTheirTypes) {
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
