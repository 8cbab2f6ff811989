// The cuda backend's host side over a driver in host memory (fake_libcuda.h), with the real NVRTC: what runs where no
// GPU is. The executable links the fake as libcuda.so.1, so that the backend's dlopen of that name finds it.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <thread>

#include "heddle/backend_cuda/nvrtc.h"
#include "heddle/core/base/dtype.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/host_span.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/contract/handles.h"
#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "tests/fake_cuda/fake_libcuda.h"

namespace heddle {
namespace {

KernelSource mix_source() {
  KernelSource source;
  source.name = "mix";
  source.buffers = {{"a", DType::i32, Access::read, true},
                    {"b", DType::i32, Access::read, true},
                    {"out", DType::i32, Access::write, true}};
  source.constants = {{"n", ConstParam::Type::u32}, {"c", ConstParam::Type::i32}};
  source.group = {32, 1, 1};
  source.body =
      "uint i = GROUP_ID(0) * 32u + LOCAL_ID(0);\nif (i < n) { STORE(out, i, 3 * LOAD(a, i) + LOAD(b, i) + c); }\n";
  return source;
}

class FakeCuda : public testing::Test {
 protected:
  static constexpr uint32_t n = 100;

  void SetUp() override {
    std::string absent;
    if (!cuda::have_nvrtc(&absent)) GTEST_SKIP() << absent;
    fake_cuda_revive();
    for (const char* kind : kinds) live_before[kind] = fake_cuda_live(kind);
    device = Registry::instance().open("cuda:0");
    kernel = device->compile(mix_source());
    for (BufferId* buffer : {&a, &b, &out}) *buffer = device->alloc(4096);
    std::vector<int32_t> values(1024);
    std::iota(values.begin(), values.end(), 0);
    device->write(a, 0, values.data(), 4096);
    device->write(b, 0, values.data(), 4096);
  }

  void TearDown() override {
    device.reset();
    for (const char* kind : kinds) EXPECT_EQ(fake_cuda_live(kind), live_before[kind]) << kind << " leaked";
  }

  Dispatch mix(BufferId x, BufferId y, BufferId z, int32_t c) const {
    return {kernel, {4, 1, 1}, {{x, 0, 4 * n}, {y, 0, 4 * n}, {z, 0, 4 * n}}, {n, static_cast<uint32_t>(c)}};
  }
  RecordingId record(std::vector<Command> commands, bool timed = false) { return device->record(commands, timed); }
  std::vector<int32_t> get(BufferId buffer, uint64_t offset = 0) {
    std::vector<int32_t> values(n);
    device->read(buffer, offset, values.data(), 4 * n);
    return values;
  }

  std::unique_ptr<Device> device;
  KernelId kernel{};
  BufferId a{}, b{}, out{};
  static constexpr const char* kinds[] = {"memory", "host", "event", "module", "graph", "exec", "stream", "context"};
  std::map<std::string, int> live_before;
};

TEST_F(FakeCuda, IsListedWithItsFacts) {
  DeviceInfo found;
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (info.id == "cuda:0") found = info;
  }
  EXPECT_TRUE(found.available) << found.reason;
  EXPECT_EQ(found.name, "Fake GPU");
  EXPECT_EQ(found.driver, "CUDA 13.0, sm_99");
  EXPECT_EQ(found.caps.device_class, DeviceClass::discrete_gpu);
  EXPECT_EQ(found.caps.subgroup_size, 32u);
  EXPECT_EQ(found.caps.memory_bytes, 1u << 30);
  EXPECT_EQ(found.caps.target, Target::cuda);
  unsetenv("HEDDLE_DEVICE");
  EXPECT_EQ(Registry::instance().best(), "cuda:0") << "a discrete GPU through cuda comes first";
}

TEST_F(FakeCuda, RunsCommandsInOrder) {
  int launches = fake_cuda_calls("cuGraphLaunch");
  RecordingId recording =
      record({mix(a, b, out, 7), Copy{{out, 0, 4 * n}, {b, 2048, 4 * n}}, Fill{{out, 0, 8}, 0xfffffffeu}});
  device->wait(device->submit(recording));
  auto result = get(out), copy = get(b, 2048);
  EXPECT_EQ(result[0], -2);
  EXPECT_EQ(result[1], -2);
  for (int i = 0; i < static_cast<int>(n); ++i) {
    EXPECT_EQ(copy[static_cast<size_t>(i)], 4 * i + 7);
    if (i > 1) {
      EXPECT_EQ(result[static_cast<size_t>(i)], 4 * i + 7);
    }
  }
  EXPECT_EQ(fake_cuda_calls("cuGraphLaunch"), launches + 1);
}

// The fake runs, of all work that may start, the one that was captured last: whatever is not ordered by an event goes
// wrong.
TEST_F(FakeCuda, IndependentCommandsBecomeBranchesOfTheGraph) {
  const BufferId x = device->alloc(4096), y = device->alloc(4096), z = device->alloc(4096);
  const int streams = fake_cuda_live("stream"), waits = fake_cuda_calls("cuStreamWaitEvent"),
            events = fake_cuda_live("event");
  std::vector<Command> commands;
  for (int round = 0; round < 3; ++round) {
    commands.emplace_back(mix(a, b, x, round));  // two chains
    commands.emplace_back(mix(a, a, y, round));
    commands.emplace_back(mix(x, x, out, 1));
    commands.emplace_back(mix(y, b, z, 2));
    commands.emplace_back(mix(out, z, a, 3));  // meet
  }
  for (Command& command : commands) std::get<Dispatch>(command).seconds = 1e-3;
  const RecordingId recording = record(commands);
  EXPECT_EQ(device->caps().queues, 2u);
  EXPECT_EQ(fake_cuda_live("stream"), streams + 1);
  EXPECT_GT(fake_cuda_calls("cuStreamWaitEvent"), waits + 4);
  EXPECT_EQ(fake_cuda_live("event"), events) << "events of a capture are gone with it";
  std::vector<int32_t> va(n), vb(n);
  std::iota(va.begin(), va.end(), 0);
  vb = va;
  for (int times = 0; times < 2; ++times) {
    device->submit(recording);
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < n; ++i) {
        const auto f = [](int64_t p, int64_t q, int64_t c) {
          return static_cast<int32_t>(static_cast<uint32_t>(3 * p + q + c));
        };
        const int32_t vx = f(va[i], vb[i], round), vy = f(va[i], va[i], round);
        va[i] = f(f(vx, vx, 1), f(vy, vb[i], 2), 3);
      }
    }
  }
  EXPECT_EQ(get(a), va);
  // A timed recording is a list on the one stream.
  const RecordingId timed = record(commands, true);
  std::vector<double> seconds;
  device->wait(device->submit(timed), &seconds);
  EXPECT_EQ(seconds.size(), commands.size());
}

TEST_F(FakeCuda, ACaptureWithBranchesThatTheDriverRefusesIsAListOfLaunches) {
  const BufferId x = device->alloc(4096), y = device->alloc(4096);
  fake_cuda_fail_next("cuStreamWaitEvent", 900);
  const int events = fake_cuda_live("event"), launches = fake_cuda_calls("cuGraphLaunch");
  const RecordingId recording = record({mix(a, b, x, 1), mix(b, a, y, 2), mix(x, y, out, 3)});
  EXPECT_EQ(fake_cuda_live("event"), events);
  device->wait(device->submit(recording));
  EXPECT_EQ(fake_cuda_calls("cuGraphLaunch"), launches);
  EXPECT_EQ(get(out)[2], 3 * (4 * 2 + 1) + (4 * 2 + 2) + 3);
}

// Batches on a stream of their own: they wait for the submission that read the old bytes, and the next submission waits
// for them.
TEST_F(FakeCuda, WritesBesideWorkWaitForWhatTheyMust) {
  const RecordingId steps[2] = {record({mix(a, out, out, 0)}), record({mix(b, out, out, 0)})};
  device->wait(device->submit(record({Fill{{out, 0, 4 * n}, 0u}})));
  Ticket used[2] = {Ticket::none, Ticket::none};
  uint32_t expected = 0;
  for (int step = 1; step <= 8; ++step) {
    const std::vector<int32_t> batch(n, step);
    device->write_beside(step % 2 ? a : b, 0, batch.data(), 4 * n, used[step % 2]);
    used[step % 2] = device->submit(steps[step % 2 ? 0 : 1]);
    expected += static_cast<uint32_t>(3 * step);
  }
  EXPECT_EQ(static_cast<uint32_t>(get(out)[7]), expected);
}

TEST_F(FakeCuda, HostMemoryIsCopiedByAddress) {
  const BufferId host = device->alloc_host(8192);
  const Binding here{a, 0, 4 * n}, there{host, 4096, 4 * n};
  device->submit(record({Copy{here, there}, Fill{here, 0u}}));
  EXPECT_EQ(get(a)[5], 0);
  device->submit(record({Copy{there, here}}));
  EXPECT_EQ(get(a)[5], 5);
  device->free(host);
  fake_cuda_fail_next("cuMemHostAlloc", 2);
  EXPECT_THROW(device->alloc_host(64), OutOfMemory);
}

// More shared memory than the 48 KiB of static arrays: the kernel opts in, and every launch says how much.
TEST_F(FakeCuda, LargeSharedArraysAreDynamic) {
  KernelSource source = mix_source();
  source.shared = {{"tile", "float", 15000}, {"other", "uint", 5}};
  const int before = fake_cuda_calls("cuFuncSetAttribute");
  const KernelId large = device->compile(source);
  EXPECT_EQ(fake_cuda_calls("cuFuncSetAttribute"), before + 1);
  Dispatch d = mix(a, b, out, 5);
  d.kernel = large;
  for (const bool timed : {false, true}) {
    const RecordingId recording = record({d}, timed);
    device->wait(device->submit(recording));
    EXPECT_EQ(get(out)[3], 17);
    device->release(recording);
  }
  source.shared[0].count = 12000;
  const KernelId small = device->compile(source);
  EXPECT_EQ(fake_cuda_calls("cuFuncSetAttribute"), before + 1) << "48000 bytes are static";
  fake_cuda_fail_next("cuFuncSetAttribute", 1);
  source.shared[0].count = 15001;
  EXPECT_THROW(device->compile(source), DeviceError);
  source.shared[0].count = 60000;
  EXPECT_THROW(device->compile(source), LimitError);
  device->release(large);
  device->release(small);
}

TEST_F(FakeCuda, WritesBetweenSubmissionsAreKeptApart) {
  RecordingId recording = record({mix(a, a, out, 0), Copy{{out, 0, 4}, {b, 0, 4}}});
  RecordingId shift = record({Copy{{b, 0, 4}, {b, 1024, 4}}});
  for (int32_t value = 1; value <= 300; ++value) {  // more than may be in flight
    int32_t source = value;
    device->write(a, 0, &source, 4);
    source = -1;  // it may be reused at once
    device->submit(recording);
    if (value == 150) device->submit(shift);
  }
  int32_t last = 0, middle = 0;
  device->read(b, 0, &last, 4);
  device->read(b, 1024, &middle, 4);
  EXPECT_EQ(last, 4 * 300);
  EXPECT_EQ(middle, 4 * 150);
}

TEST_F(FakeCuda, ManyLargeWritesStayBounded) {
  BufferId big = device->alloc(4 << 20);
  std::vector<int32_t> values(1 << 20);
  for (int round = 0; round < 40; ++round) {  // 160 MiB through 64 MiB of staging
    std::fill(values.begin(), values.end(), round);
    device->write(big, 0, values.data(), 4 << 20);
    EXPECT_LE(fake_cuda_live("host"), 24);
  }
  int32_t end = 0;
  device->read(big, (4 << 20) - 4, &end, 4);
  EXPECT_EQ(end, 39);
  std::vector<char> huge(20 << 20, 5);
  BufferId huger = device->alloc(huge.size());
  device->write(huger, 0, huge.data(), huge.size());  // over the staging limit: waits instead
  char byte = 0;
  device->read(huger, huge.size() - 1, &byte, 1);
  EXPECT_EQ(byte, 5);
}

TEST_F(FakeCuda, WorksWithoutPageLockedMemory) {
  for (int i = 0; i < 3; ++i) {
    fake_cuda_fail_next("cuMemHostAlloc", 2);
    std::vector<int32_t> values(1024, i);
    device->write(a, 0, values.data(), 4096);
    EXPECT_EQ(get(a)[99], i);
  }
}

TEST_F(FakeCuda, TimedRecordingsGiveOneTimePerCommand) {
  RecordingId timed = record({mix(a, b, out, 0), Fill{{out, 0, 4}, 1u}, mix(a, b, out, 1)}, true);
  Ticket first = device->submit(timed), second = device->submit(timed);
  std::vector<double> seconds;
  device->wait(second, &seconds);
  EXPECT_EQ(seconds.size(), 3u);
  for (double s : seconds) EXPECT_GE(s, 0.0);
  device->wait(first, &seconds);  // earlier, finished long ago
  EXPECT_EQ(seconds.size(), 3u);
  device->wait(device->submit(record({mix(a, b, out, 0)})), &seconds);
  EXPECT_TRUE(seconds.empty()) << "not timed";
  EXPECT_EQ(get(out)[10], 40);
}

TEST_F(FakeCuda, FallsBackToAListWhereCaptureFails) {
  for (const char* symbol : {"cuStreamBeginCapture", "cuStreamEndCapture", "cuGraphInstantiate", "cuLaunchKernel"}) {
    fake_cuda_fail_next(symbol, 900);
    RecordingId recording = record({mix(a, b, out, 5), Copy{{out, 4, 4}, {out, 0, 4}}});
    int graphs = fake_cuda_calls("cuGraphLaunch");
    device->wait(device->submit(recording));
    EXPECT_EQ(fake_cuda_calls("cuGraphLaunch"), graphs) << symbol;
    EXPECT_EQ(get(out)[0], 9) << symbol;
    EXPECT_EQ(get(out)[20], 85) << symbol;
    device->release(recording);
  }
}

TEST_F(FakeCuda, EmptyRecording) {
  Ticket ticket = device->submit(record({}));
  EXPECT_NO_THROW(device->wait(ticket));
  EXPECT_THROW(device->wait(Ticket{12345}), DeviceError);
}

TEST_F(FakeCuda, OutOfMemoryIsItsOwnError) {
  fake_cuda_fail_next("cuMemAlloc", 2);
  try {
    device->alloc(1000);
    FAIL();
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("cuMemAlloc of 1000 bytes: CUDA_ERROR_OUT_OF_MEMORY (2)"),
              std::string::npos)
        << error.what();
  }
  EXPECT_NO_THROW(device->free(device->alloc(1000)));
}

TEST_F(FakeCuda, ReleasesWhileWorkIsInFlight) {
  BufferId scratch = device->alloc(4096);
  RecordingId first = record({Fill{{scratch, 0, 4096}, 3u}, mix(scratch, scratch, out, 1)});
  device->submit(first);
  device->release(first);
  device->free(scratch);
  KernelId other = device->compile(mix_source());
  device->release(other);
  EXPECT_EQ(get(out)[50], 13);
}

TEST_F(FakeCuda, RefusesARecordingWhoseBufferIsGone) {
  BufferId scratch = device->alloc(4096);
  RecordingId recording = record({Fill{{scratch, 0, 4096}, 3u}});
  device->free(scratch);
  EXPECT_THROW(device->submit(recording), DeviceError);
  EXPECT_NO_THROW(device->submit(record({Fill{{out, 0, 4}, 3u}})));
}

TEST_F(FakeCuda, MayBeCalledFromAnotherThread) {
  std::thread([this] {
    device->wait(device->submit(record({mix(a, b, out, 2)})));
    device->free(device->alloc(64));
  }).join();
  EXPECT_EQ(get(out)[3], 14);
}

TEST_F(FakeCuda, ALostDeviceStaysDeadAndSaysWhat) {
  RecordingId recording = record({mix(a, b, out, 0)});
  device->submit(recording);
  fake_cuda_fail_next("cuEventSynchronize", 700);
  try {
    device->wait(Ticket{1});
    FAIL();
  } catch (const DeviceLost& error) {
    std::string text = error.what();
    EXPECT_NE(text.find("cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700)"), std::string::npos) << text;
    EXPECT_NE(text.find("dispatch of mix"), std::string::npos) << text;
  }
  fake_cuda_revive();  // a dead context runs nothing of what was enqueued
  char byte = 0;
  EXPECT_THROW(device->submit(recording), DeviceLost);
  EXPECT_THROW(device->read(a, 0, &byte, 1), DeviceLost);
  EXPECT_THROW(device->write(a, 0, &byte, 1), DeviceLost);
  EXPECT_THROW(device->alloc(16), DeviceLost);
  EXPECT_THROW(device->compile(mix_source()), DeviceLost);
  EXPECT_THROW(record({}), DeviceLost);
  EXPECT_THROW(device->wait(Ticket::none), DeviceLost);
  device->free(out);
  device->release(recording);
  device->release(kernel);
}

#ifdef HEDDLE_FAKE_NVTX
// Before the backend looks: this program runs with a tool that listens to NVTX.
[[gnu::constructor(200)]] void start_with_a_tool() { setenv("NVTX_INJECTION64_PATH", HEDDLE_FAKE_NVTX, 0); }

TEST_F(FakeCuda, ToolsOfTheVendorSeeRanges) {
  const RecordingId graph = record({mix(a, b, out, 1)}), list = record({mix(a, b, out, 2)}, true);
  device->wait(device->submit(graph));
  device->wait(device->submit(list));
  { const HostSpan span("plan"); }
  void* tool = dlopen(HEDDLE_FAKE_NVTX, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(tool, nullptr) << "NVTX did not load the tool";
  const std::string heard = reinterpret_cast<const char* (*)()>(dlsym(tool, "fake_nvtx_heard"))();
  for (const char* range : {"+heddle graph\n", "+heddle list\n+mix\n-\n", "+plan\n-\n"})
    EXPECT_NE(heard.find(range), std::string::npos) << range << " is not in:\n" << heard;
  EXPECT_EQ(std::count(heard.begin(), heard.end(), '+'), std::count(heard.begin(), heard.end(), '-'));
  dlclose(tool);
}
#endif

}  // namespace
}  // namespace heddle
