// Several queues of one device: commands that do not depend on each other run side by side, those that do in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/device/branches.h"
#include "heddle/core/device/registry.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

constexpr uint32_t cells = 8, length = 128;  // each buffer has some cells of that many ints
constexpr uint64_t cell_bytes = length * 4;

KernelSource mix_source() {
  KernelSource source;
  source.name = "mix_cells";
  source.buffers = {{"a", DType::i32, Access::read, true},
                    {"b", DType::i32, Access::read, true},
                    {"out", DType::i32, Access::read_write, true}};
  source.constants = {{"n", ConstParam::Type::u32}, {"c", ConstParam::Type::i32}};
  source.group = {16, 1, 1};
  source.body =
      "uint i = GROUP_ID(0) * 16u + LOCAL_ID(0);\nif (i < n) { STORE(out, i, (5 * LOAD(out, i) + 3 * LOAD(a, i) + "
      "LOAD(b, i) + c) & 16777215); }\n";
  return source;
}

struct Place {
  size_t buffer, cell, count;
};

// A random list of commands, and what it does to the memory of the host.
class RandomList {
 public:
  RandomList(uint32_t seed, const std::vector<BufferId>& buffers, KernelId kernel)
      : random_(seed), buffers_(buffers), kernel_(kernel) {}

  std::vector<Command> make(size_t count) {
    std::vector<Command> list;
    for (size_t i = 0; i < count; ++i) list.push_back(one());
    return list;
  }
  void run(const std::vector<Command>& list, std::vector<std::vector<int32_t>>& memory) const {
    const auto at = [&](const Binding& b) {
      return memory[static_cast<size_t>(std::find(buffers_.begin(), buffers_.end(), b.buffer) - buffers_.begin())]
                 .data() +
             b.offset / 4;
    };
    for (const Command& command : list) {
      if (const auto* copy = std::get_if<Copy>(&command)) {
        std::copy_n(at(copy->src), copy->src.size / 4, at(copy->dst));
      } else if (const auto* fill = std::get_if<Fill>(&command)) {
        std::fill_n(at(fill->dst), fill->dst.size / 4, static_cast<int32_t>(fill->pattern));
      } else {
        const auto& d = std::get<Dispatch>(command);
        const int32_t *a = at(d.bindings[0]), *b = at(d.bindings[1]);
        int32_t* out = at(d.bindings[2]);
        for (uint32_t i = 0; i < d.constants[0]; ++i)
          out[i] = (5 * out[i] + 3 * a[i] + b[i] + static_cast<int32_t>(d.constants[1])) & 16777215;
      }
    }
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  Binding range(size_t count) {
    return {buffers_[below(buffers_.size())], below(cells - count + 1) * cell_bytes, count * cell_bytes};
  }
  Binding apart(const Binding& from) {
    for (;;) {
      const Binding to = range(from.size / cell_bytes);
      if (!overlaps(from, to)) return to;
    }
  }
  Command one() {
    const size_t count = 1 + below(3), kind = below(8);
    const Binding out = range(count);
    if (kind == 0) return Fill{out, static_cast<uint32_t>(below(1000))};
    if (kind == 1) return Copy{out, apart(out)};
    return Dispatch{kernel_,
                    {static_cast<uint32_t>(count * length / 16), 1, 1},
                    {apart(out), apart(out), out},
                    {static_cast<uint32_t>(count * length), static_cast<uint32_t>(below(100))},
                    1e-5 * static_cast<double>(below(20))};
  }

  std::mt19937 random_;
  const std::vector<BufferId>& buffers_;
  KernelId kernel_;
};

// ---- which command goes where

bool conflict(const Command& a, const Command& b) {
  struct Touch {
    Binding range;
    bool writes;
  };
  const auto touches = [](const Command& c) -> std::vector<Touch> {
    if (const auto* copy = std::get_if<Copy>(&c)) return {{copy->src, false}, {copy->dst, true}};
    if (const auto* fill = std::get_if<Fill>(&c)) return {{fill->dst, true}};
    const auto& d = std::get<Dispatch>(c);
    return {{d.bindings[0], false}, {d.bindings[1], false}, {d.bindings[2], true}};
  };
  for (const Touch& x : touches(a)) {
    for (const Touch& y : touches(b)) {
      if ((x.writes || y.writes) && overlaps(x.range, y.range)) return true;
    }
  }
  return false;
}

TEST(Branches, EveryConflictIsOrderedAndNothingElseMustBe) {
  const std::vector<BufferId> buffers{BufferId{1}, BufferId{2}, BufferId{3}, BufferId{4}, BufferId{5}, BufferId{6}};
  const KernelSignature mix = signature_of(mix_source());
  const uint64_t bytes = cells * cell_bytes;
  const HandleLookup lookup{[&](BufferId) { return &bytes; }, [&](KernelId) { return &mix; }};
  size_t spread_over_several = 0, waits = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    const std::vector<Command> list = RandomList(seed, buffers, KernelId{1}).make(60);
    const uint32_t queues = 1 + seed % 4;
    const Branches b = spread(list, lookup, queues);
    ASSERT_EQ(b.queue.size(), list.size());
    ASSERT_LE(b.queues, queues);
    spread_over_several += b.queues > 1;
    // What has finished when a command starts: what its queue did before, and what it waits for, with what those knew.
    std::vector<std::vector<bool>> before(list.size(), std::vector<bool>(list.size(), false));
    std::vector<size_t> tail(queues, list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      const auto take = [&](size_t j) {
        before[i][j] = true;
        for (size_t k = 0; k < j; ++k) before[i][k] = before[i][k] || before[j][k];
      };
      if (tail[b.queue[i]] < list.size()) take(tail[b.queue[i]]);
      for (size_t w : b.waits[i]) {
        EXPECT_NE(b.queue[w], b.queue[i]);
        EXPECT_FALSE(before[i][w]) << "a wait that says nothing new";
        EXPECT_TRUE(b.awaited[w]);
        take(w);
        ++waits;
      }
      tail[b.queue[i]] = i;
      EXPECT_LE(i + 1, b.last[b.queue[i]]);
      for (size_t j = 0; j < i; ++j) {
        EXPECT_TRUE(before[i][j] || !conflict(list[j], list[i])) << "seed " << seed << ": " << j << " and " << i;
      }
    }
  }
  EXPECT_GT(spread_over_several, 30u);
  EXPECT_GT(waits, 100u);
}

TEST(Branches, AChainStaysOnOneQueueAndTwoChainsDoNot) {
  const KernelSignature mix = signature_of(mix_source());
  const uint64_t bytes = cells * cell_bytes;
  const HandleLookup lookup{[&](BufferId) { return &bytes; }, [&](KernelId) { return &mix; }};
  const auto command = [](uint64_t from, uint64_t to) {
    return Dispatch{KernelId{1},
                    {4, 1, 1},
                    {{BufferId{from}, 0, cell_bytes}, {BufferId{from}, 0, cell_bytes}, {BufferId{to}, 0, cell_bytes}},
                    {length, 1},
                    1e-3};
  };
  EXPECT_EQ(spread(std::vector<Command>{command(1, 2), command(2, 3), command(3, 4)}, lookup, 4).queues, 1u);
  const Branches two =
      spread(std::vector<Command>{command(1, 2), command(11, 12), command(2, 3), command(12, 13)}, lookup, 2);
  EXPECT_EQ(two.queue, (std::vector<uint32_t>{0, 1, 0, 1}));
  for (const std::vector<size_t>& w : two.waits) EXPECT_TRUE(w.empty());
}

// ---- the same values from any number of queues

class Queues : public testing::TestWithParam<std::string> {};

TEST_P(Queues, ComputeWhatOneQueueComputes) {
  for (const char* queues : {"1", "2", "3"}) {
    setenv("HEDDLE_QUEUES", queues, 1);
    const auto device = Registry::instance().open(GetParam());
    unsetenv("HEDDLE_QUEUES");
    const KernelId kernel = device->compile(mix_source());
    std::vector<BufferId> buffers;
    std::vector<std::vector<int32_t>> memory;
    for (int b = 0; b < 6; ++b) {
      buffers.push_back(device->alloc(cells * cell_bytes));
      memory.emplace_back(cells * length, b + 1);
      device->write(buffers.back(), 0, memory.back().data(), cells * cell_bytes);
    }
    for (uint32_t seed = 1; seed <= 12; ++seed) {
      RandomList random(seed, buffers, kernel);
      const std::vector<Command> list = random.make(80);
      const RecordingId recording = device->record(list, seed % 4 == 0);
      for (int times = 0; times < 3; ++times) {
        device->submit(recording);
        random.run(list, memory);
        // Between two submissions, in queue order.
        const std::vector<int32_t> line(length, static_cast<int32_t>(seed) + times);
        device->write(buffers[seed % 6], cell_bytes, line.data(), cell_bytes);
        std::copy(line.begin(), line.end(), memory[seed % 6].begin() + length);
      }
      for (size_t b = 0; b < buffers.size(); ++b) {
        std::vector<int32_t> got(cells * length);
        device->read(buffers[b], 0, got.data(), cells * cell_bytes);
        ASSERT_EQ(got, memory[b]) << queues << " queues, seed " << seed << ", buffer " << b;
      }
      device->release(recording);
    }
  }
}

// The host hands a batch over while a step runs that does not read it, and so does one whose storage an earlier step
// still reads.
TEST_P(Queues, AnUploadDoesNotWaitForTheStepThatRuns) {
  const auto device = Registry::instance().open(GetParam());
  if (!device->caps().async) GTEST_SKIP() << GetParam() << " works while the host waits";
  const KernelId kernel = device->compile(mix_source());
  constexpr uint32_t n = 1 << 16;
  const std::vector<int32_t> ones(n, 1), batch(n, 7);
  BufferId a = device->alloc(n * 4), out = device->alloc(n * 4),
           slots[2] = {device->alloc(n * 4), device->alloc(n * 4)};
  for (const BufferId b : {a, out, slots[0], slots[1]}) device->write(b, 0, ones.data(), n * 4);
  size_t launches = 1500;
  const auto step = [&](BufferId input) {
    return std::vector<Command>(
        launches, Dispatch{kernel, {n / 16, 1, 1}, {{a, 0, n * 4}, {input, 0, n * 4}, {out, 0, n * 4}}, {n, 3}});
  };
  device->write_beside(slots[1], 0, ones.data(), n * 4, Ticket::none);  // the first one makes page-locked memory
  // A step of 50 ms at least.
  const RecordingId once = device->record(step(slots[0]), false);
  const auto begin = std::chrono::steady_clock::now();
  device->wait(device->submit(once));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  const size_t before = launches;
  device->release(once);
  launches *= static_cast<size_t>(std::clamp(0.05 / took.count(), 1.0, 40.0));
  const RecordingId steps[] = {device->record(step(slots[0]), false), device->record(step(slots[1]), false)};
  const Ticket running = device->submit(steps[0]);
  device->write_beside(slots[1], 0, batch.data(), n * 4, Ticket::none);
  EXPECT_FALSE(device->done(running)) << "the upload waited for the step";
  const Ticket second = device->submit(steps[1]);
  device->write_beside(slots[0], 0, batch.data(), n * 4, running);  // may wait, but not for the second step
  EXPECT_FALSE(device->done(second)) << "the upload waited for a step that does not read its storage";
  device->wait(second);
  int32_t expected = 1;  // of every element: the steps read ones, ones, sevens
  const std::pair<int32_t, size_t> times[] = {{1, before}, {1, launches}, {7, launches}};
  for (const auto& [input, count] : times) {
    for (size_t i = 0; i < count; ++i) expected = (5 * expected + 3 + input + 3) & 16777215;
  }
  std::vector<int32_t> got(n);
  device->read(out, 0, got.data(), n * 4);
  EXPECT_EQ(got, std::vector<int32_t>(n, expected));
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Queues);
INSTANTIATE_TEST_SUITE_P(Devices, Queues, testing::ValuesIn(test::kernel_devices()), [](const auto& tested) {
  std::string name = tested.param;
  for (char& c : name) c = c == ':' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace heddle
