// Models through the C interface: the same bits as the library, nothing allocated in a run, threads, other processes.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "heddle/core/contract/driver_programs.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/functions/functions.h"
#include "tests/runtime/counted_new.h"
#include "tests/runtime/through_c.h"
#include "tests/support/devices.h"

namespace heddle::test {
namespace {

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

INSTANTIATE_TEST_SUITE_P(Devices, RuntimeTest, ::testing::ValuesIn(kernel_devices()), device_name);

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

}  // namespace
}  // namespace heddle::test
