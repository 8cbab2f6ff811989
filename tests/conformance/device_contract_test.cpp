// The contract of core/contract/device.h: memory, transfers, order and recordings. Kernels:
// device_contract_kernels_test.cpp.
#include "tests/conformance/device_contract.h"

#include <algorithm>
#include <tuple>

namespace heddle {
namespace {

using namespace device_contract;

TEST_P(DeviceContract, CapsAreSane) {
  const Caps& caps = dev().caps();
  EXPECT_NE(caps.target, Target::none);
  EXPECT_GE(caps.compute_units, 1u);
  EXPECT_GE(caps.subgroup_size, 1u);
  EXPECT_GE(caps.shared_bytes, 16384u);
  EXPECT_GE(caps.max_group_lanes, 128u);
  EXPECT_GE(caps.max_bindings, 8u);
  EXPECT_GE(caps.max_binding_bytes, 1u << 27);
  EXPECT_GE(caps.max_allocation_bytes, caps.max_binding_bytes);
  EXPECT_GT(caps.memory_bytes, 0u);
  EXPECT_NE(caps.driver_hash, 0u);
  ASSERT_GT(caps.buffer_alignment, 0u);
  EXPECT_EQ(caps.buffer_alignment & (caps.buffer_alignment - 1), 0u) << "no power of two";
  EXPECT_EQ(caps.driver_hash, open()->caps().driver_hash);
}

TEST_P(DeviceContract, RoundTripOfAnySize) {
  for (const size_t size : {1u, 2u, 3u, 5u, 63u, 64u, 65u, 1000u, 4097u, (1u << 20) + 3u}) {
    const auto bytes = random_bytes(size, static_cast<uint32_t>(size));
    const BufferId buffer = dev().alloc(size);
    dev().write(buffer, 0, bytes.data(), size);
    std::vector<uint8_t> back(size);
    dev().read(buffer, 0, back.data(), size);
    EXPECT_EQ(back, bytes) << size << " bytes";
    dev().free(buffer);
  }
}

TEST_P(DeviceContract, PartialWritesAtOddOffsets) {
  std::vector<uint8_t> expected(301, 0xcc);
  const BufferId buffer = dev().alloc(expected.size());
  dev().write(buffer, 0, expected.data(), expected.size());
  std::mt19937 random(5);
  for (int i = 0; i < 100; ++i) {
    const size_t offset = random() % expected.size(), size = 1 + random() % (expected.size() - offset);
    const auto bytes = random_bytes(size, random());
    std::copy(bytes.begin(), bytes.end(), expected.begin() + static_cast<std::ptrdiff_t>(offset));
    dev().write(buffer, offset, bytes.data(), size);
  }
  std::vector<uint8_t> back(expected.size() - 7);
  dev().read(buffer, 7, back.data(), back.size());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), expected.begin() + 7));
  dev().write(buffer, expected.size(), nullptr, 0);  // nothing, at the very end
}

// Batches: what was written beside earlier work is seen by everything enqueued afterwards, and leaves what that work
// reads alone.
TEST_P(DeviceContract, WritesBesideWorkAreSeenByLaterWork) {
  const uint32_t n = 20000;
  const KernelId add = dev().compile(add_source());
  const BufferId slots[] = {dev().alloc(n * 4), dev().alloc(n * 4)}, total = make(std::vector<int32_t>(n, 0));
  RecordingId steps[2];
  for (int s = 0; s < 2; ++s)
    steps[s] = record({Dispatch{add, {groups_for(n), 1, 1}, {{slots[s], 0, n * 4}, {total, 0, n * 4}}, {n}}});
  Ticket used[2] = {Ticket::none, Ticket::none};
  std::vector<int32_t> expected(n, 0), batch(n);
  for (int step = 0; step < 40; ++step) {
    for (uint32_t i = 0; i < n; ++i) expected[i] += batch[i] = static_cast<int32_t>(i % 97) * step + 1;
    const int s = step % 2;
    const uint32_t half = (n / 2 + step) * 4;  // in two parts, at odd places
    dev().write_beside(slots[s], 0, batch.data(), half, used[s]);
    dev().write_beside(slots[s], half, reinterpret_cast<const char*>(batch.data()) + half, n * 4 - half, used[s]);
    std::fill(batch.begin(), batch.end(), -1);  // the source is free at once
    used[s] = dev().submit(steps[s]);
  }
  EXPECT_EQ(get(total, n), expected);
  // A read, a write and a copy come after it as well.
  const std::vector<int32_t> ones(n, 1), twos(n, 2);
  dev().write_beside(slots[0], 0, ones.data(), n * 4, used[1]);
  EXPECT_EQ(get(slots[0], n), ones);
  dev().write_beside(slots[0], 0, twos.data(), n * 4, used[1]);
  dev().write(slots[0], 0, ones.data(), 4);
  const RecordingId copy = record({Copy{{slots[0], 0, n * 4}, {slots[1], 0, n * 4}}});
  dev().submit(copy);
  const std::vector<int32_t> copied = get(slots[1], n);
  EXPECT_EQ(copied[0], 1);
  EXPECT_EQ(copied[1], 2);
  EXPECT_EQ(copied[n - 1], 2);
}

TEST_P(DeviceContract, HostMemoryTakesCopiesAndGivesThemBack) {
  const uint32_t n = 5000;
  std::vector<int32_t> values(n);
  std::iota(values.begin(), values.end(), -7);
  const BufferId x = make(values), host = dev().alloc_host(n * 4 + 256);
  const KernelId increment = dev().compile(increment_source());
  const Binding here{x, 0, n * 4}, there{host, 256, n * 4};
  const RecordingId away = record({Copy{here, there}, Fill{here, 0u}}),
                    back = record({Copy{there, here}, Dispatch{increment, {groups_for(n), 1, 1}, {here}, {n}},
                                   Copy{here, there}});
  dev().submit(away);
  EXPECT_EQ(get(x, n), std::vector<int32_t>(n, 0));
  for (int times = 0; times < 3; ++times) dev().submit(back);
  for (int32_t& v : values) v += 3;
  EXPECT_EQ(get(x, n), values);
  dev().release(away);
  dev().release(back);
  dev().free(host);
}

TEST_P(DeviceContract, LargeTransfersKeepTheirOrder) {
  const size_t size = (36u << 20) + 5;  // more than any staging memory holds
  const auto first = random_bytes(size, 1), second = random_bytes(size, 2);
  const BufferId a = dev().alloc(size), b = dev().alloc(size);
  const RecordingId copy = record({Copy{{a, 0, size - 1}, {b, 0, size - 1}}});
  dev().write(a, 0, first.data(), size);
  dev().submit(copy);
  dev().write(a, 0, second.data(), size);  // must not reach the copy above
  std::vector<uint8_t> back(size - 1);
  dev().read(b, 0, back.data(), back.size());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), first.begin()));
  dev().submit(copy);
  dev().read(b, 0, back.data(), back.size());
  EXPECT_TRUE(std::equal(back.begin(), back.end(), second.begin()));
}

// The host runs ahead: every submission must see the write just before it, and no later one.
TEST_P(DeviceContract, WritesSubmissionsAndReadsTakeEffectInOrder) {
  constexpr uint32_t n = 1003;
  constexpr int steps = 60;
  const KernelId add = dev().compile(add_source());
  const BufferId x = dev().alloc(n * 4), total = make(std::vector<int32_t>(n, 0));
  const RecordingId step = record({Dispatch{add, {groups_for(n), 1, 1}, {{x, 0, n * 4}, {total, 0, n * 4}}, {n}}});
  std::vector<int32_t> expected(n, 0), values(n);
  for (int s = 0; s < steps; ++s) {
    for (uint32_t i = 0; i < n; ++i) {
      values[i] = static_cast<int32_t>((i * 7 + static_cast<uint32_t>(s) * 13) % 1000);
      expected[i] += values[i];
    }
    dev().write(x, 0, values.data(), n * 4);
    dev().submit(step);
    std::fill(values.begin(), values.end(), -1);  // the source may be reused at once
    if (s == steps / 2) {
      EXPECT_EQ(get(total, n), expected);
    }
  }
  dev().write(x, 0, values.data(), n * 4);
  EXPECT_EQ(get(total, n), expected);
}

TEST_P(DeviceContract, RecordingIsSubmittedAgainWhileItRuns) {
  constexpr uint32_t n = 77;
  const KernelId kernel = dev().compile(increment_source());
  const BufferId x = make(std::vector<int32_t>(n, 5));
  const RecordingId once = record({Dispatch{kernel, {groups_for(n), 1, 1}, {{x, 0, n * 4}}, {n}}});
  Ticket last = Ticket::none;
  for (int i = 0; i < 300; ++i) last = dev().submit(once);
  dev().wait(last);
  dev().wait(last);
  EXPECT_EQ(get(x, n), std::vector<int32_t>(n, 305));
}

// Random programs over overlapping ranges of two buffers, against a simulation that runs one command after the other:
// a missing barrier of any kind (read after write, write after read, write after write) shows up here.
TEST_P(DeviceContract, CommandsActAsIfOneAfterTheOther) {
  const uint32_t align = dev().caps().buffer_alignment / 4 ? dev().caps().buffer_alignment / 4 : 1;
  const uint32_t slots = 12, slot = std::max(align, 256u) / align * align, total = slots * slot;
  const KernelId mix = dev().compile(mix_source());
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::vector<int32_t>> host(2, std::vector<int32_t>(total));
    for (auto& values : host) {
      for (auto& v : values) v = static_cast<int32_t>(random() & 0xffffff);
    }
    const BufferId buffers[2] = {make(host[0]), make(host[1])};
    std::vector<Command> commands;
    for (int c = 0; c < 120; ++c) {
      const uint32_t count = 1 + random() % (3 * slot);
      const auto place = [&](uint32_t unit) { return random() % ((total - count) / unit + 1) * unit; };
      const uint32_t kind = random() % 8;
      if (kind < 5) {
        const uint32_t wa = random() % 2, wb = random() % 2, wo = random() % 2;
        const uint32_t a = place(align), b = place(align), o = place(align);
        const auto clash = [&](uint32_t w, uint32_t p) { return w == wo && p < o + count && o < p + count && p != o; };
        if (clash(wa, a) || clash(wb, b)) continue;  // lanes would race within one dispatch
        const int32_t constant = static_cast<int32_t>(random() % 1000) - 500;
        commands.push_back(Dispatch{mix,
                                    {groups_for(count), 1, 1},
                                    {{buffers[wa], a * 4ull, count * 4ull},
                                     {buffers[wb], b * 4ull, count * 4ull},
                                     {buffers[wo], o * 4ull, count * 4ull}},
                                    {count, static_cast<uint32_t>(constant)}});
        for (uint32_t i = 0; i < count; ++i) {
          host[wo][o + i] = (3 * host[wa][a + i] + host[wb][b + i] + constant) & 0xffffff;
        }
      } else if (kind < 7) {
        const uint32_t ws = random() % 2, wd = random() % 2, s = place(1), d = place(1);
        if (ws == wd && s < d + count && d < s + count) continue;
        commands.push_back(Copy{{buffers[ws], s * 4ull, count * 4ull}, {buffers[wd], d * 4ull, count * 4ull}});
        std::copy_n(host[ws].begin() + s, count, host[wd].begin() + d);
      } else {
        const uint32_t w = random() % 2, d = place(1), pattern = random() & 0xffffff;
        commands.push_back(Fill{{buffers[w], d * 4ull, count * 4ull}, pattern});
        std::fill_n(host[w].begin() + d, count, static_cast<int32_t>(pattern));
      }
    }
    const RecordingId program = record(commands, seed % 2 == 1);
    dev().submit(program);
    EXPECT_EQ(get(buffers[0], total), host[0]) << "seed " << seed;
    EXPECT_EQ(get(buffers[1], total), host[1]) << "seed " << seed;
    dev().release(program);
    for (const BufferId b : buffers) dev().free(b);
  }
}

TEST_P(DeviceContract, FillAndCopyTouchNothingElse) {
  std::vector<uint8_t> expected = random_bytes(256, 9);
  const BufferId a = dev().alloc(256), b = dev().alloc(256);
  dev().write(a, 0, expected.data(), 256);
  dev().write(b, 0, expected.data(), 256);
  const RecordingId work = record({
      Fill{{b, 4, 4}, 0x01020304u},
      Fill{{b, 100, 24}, 0xaabbccddu},
      Copy{{a, 0, 1}, {b, 9, 1}},
      Copy{{a, 3, 1}, {b, 10, 1}},
      Copy{{a, 5, 2}, {b, 13, 2}},
      Copy{{a, 7, 2}, {b, 15, 2}},
      Copy{{a, 128, 60}, {b, 64, 28 + 32}},
      Copy{{b, 64, 4}, {b, 252, 4}},
  });
  dev().submit(work);
  const auto source = expected;
  for (const auto& [offset, bytes, pattern] : {std::tuple{4, 4, 0x01020304u}, std::tuple{100, 24, 0xaabbccddu}}) {
    for (int i = 0; i < bytes; i += 4) std::memcpy(&expected[static_cast<size_t>(offset + i)], &pattern, 4);
  }
  expected[9] = source[0];
  expected[10] = source[3];
  std::copy_n(source.begin() + 5, 2, expected.begin() + 13);
  std::copy_n(source.begin() + 7, 2, expected.begin() + 15);
  std::copy_n(source.begin() + 128, 60, expected.begin() + 64);
  std::copy_n(expected.begin() + 64, 4, expected.begin() + 252);
  std::vector<uint8_t> back(256);
  dev().read(b, 0, back.data(), 256);
  EXPECT_EQ(back, expected);
  dev().read(a, 0, back.data(), 256);
  EXPECT_EQ(back, source);
}

TEST_P(DeviceContract, TimedRecordingReportsEachCommand) {
  constexpr uint32_t n = 1 << 16;
  const KernelId kernel = dev().compile(increment_source());
  const BufferId x = make(std::vector<int32_t>(n, 0)), y = dev().alloc(n * 4);
  const Dispatch work{kernel, {groups_for(n), 1, 1}, {{x, 0, n * 4}}, {n}};
  const RecordingId timed = record({work, work, Copy{{x, 0, n * 4}, {y, 0, n * 4}}, Fill{{y, 0, 4}, 1}}, true);
  double finished = -1e300;
  for (int round = 0; round < 3; ++round) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<double> seconds{-1.0};
    const Ticket ticket = dev().submit(timed);
    dev().wait(ticket, &seconds);
    const double wall = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ASSERT_EQ(seconds.size(), 4u);
    for (const double s : seconds) EXPECT_GE(s, 0.0);
    const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0);
    EXPECT_GT(sum, 0.0);
    EXPECT_LE(sum, wall * 1.05 + 1e-4);
    const std::vector<CommandTime> times = dev().command_times(ticket);
    if (times.empty()) continue;  // a device that knows how long, but not when
    ASSERT_EQ(times.size(), 4u);
    for (size_t i = 0; i < times.size(); ++i) {
      EXPECT_NEAR(times[i].end - times[i].start, seconds[i], 1e-9);
      EXPECT_GE(times[i].start, i == 0 ? finished : times[i - 1].end)
          << "one after the other, also from one submission to the next";
    }
    finished = times.back().end;
  }
  EXPECT_EQ(get(x, n), std::vector<int32_t>(n, 6));
  std::vector<double> seconds{-1.0};
  const RecordingId plain = record({work});
  dev().wait(dev().submit(plain), &seconds);
  EXPECT_TRUE(seconds.empty()) << "an untimed recording has no times";
  EXPECT_TRUE(dev().command_times(dev().submit(plain)).empty());
}

// Everything may be given back as soon as it has been enqueued.
TEST_P(DeviceContract, ReleaseWhileWorkIsInFlight) {
  constexpr uint32_t n = 1 << 15;
  const BufferId total = make(std::vector<int32_t>(n, 0));
  for (int round = 1; round <= 20; ++round) {
    const KernelId add = dev().compile(add_source());
    const BufferId x = make(std::vector<int32_t>(n, round));
    const RecordingId work = record({Dispatch{add, {groups_for(n), 1, 1}, {{x, 0, n * 4}, {total, 0, n * 4}}, {n}}});
    dev().release(add);  // the recording keeps what it needs
    const Ticket ticket = dev().submit(work);
    dev().release(work);
    dev().free(x);
    if (round % 5 == 0) dev().wait(ticket);
  }
  EXPECT_EQ(get(total, n), std::vector<int32_t>(n, 210));
  const BufferId unused = dev().alloc(100);
  dev().write(unused, 0, "abc", 3);
  dev().free(unused);
}

TEST_P(DeviceContract, DeviceEndsWithWorkInFlight) {
  constexpr uint32_t n = 1 << 16;
  const KernelId kernel = dev().compile(increment_source());
  const BufferId x = make(std::vector<int32_t>(n, 0));
  const RecordingId work = record({Dispatch{kernel, {groups_for(n), 1, 1}, {{x, 0, n * 4}}, {n}}});
  for (int i = 0; i < 20; ++i) dev().submit(work);
  dev().write(x, 0, &n, 4);
  device_.reset();
}

TEST_P(DeviceContract, EmptyRecording) {
  const BufferId x = make({42});
  const RecordingId nothing = record({});
  const Ticket ticket = dev().submit(nothing);
  dev().wait(ticket);
  dev().wait(dev().submit(nothing));
  EXPECT_EQ(get(x, 1), std::vector<int32_t>{42});
}

TEST_P(DeviceContract, SecondDeviceOfTheSameIdIsIndependent) {
  auto second = open();
  const BufferId mine = make({1, 2, 3});
  const BufferId other = second->alloc(12);
  const int32_t values[] = {7, 8, 9};
  second->write(other, 0, values, 12);
  const KernelId k1 = dev().compile(increment_source()), k2 = second->compile(increment_source());
  const RecordingId r1 = record({Dispatch{k1, {1, 1, 1}, {{mine, 0, 12}}, {3}}});
  const std::vector<Command> commands{Dispatch{k2, {1, 1, 1}, {{other, 0, 12}}, {3}}};
  const RecordingId r2 = second->record(commands, false);
  for (int i = 0; i < 10; ++i) {
    dev().submit(r1);
    second->submit(r2);
  }
  int32_t back[3];
  second->read(other, 0, back, 12);
  EXPECT_EQ(std::vector<int32_t>(back, back + 3), (std::vector<int32_t>{17, 18, 19}));
  second.reset();
  EXPECT_EQ(get(mine, 3), (std::vector<int32_t>{11, 12, 13}));
}

INSTANTIATE_TEST_SUITE_P(Devices, DeviceContract, testing::ValuesIn(subjects()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(DeviceContract);

// All devices of the machine at work at once, in one process.
TEST(DevicesTogether, InterleavedWork) {
  struct Open {
    std::string id;
    std::unique_ptr<Device> device;
    BufferId x;
    RecordingId work;
  };
  std::vector<Open> all;
  constexpr uint32_t n = 5000;
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (!info.available || info.caps.target == Target::none) continue;
    Open open{info.id, Registry::instance().open(info.id), BufferId::none, RecordingId::none};
    Device& device = *open.device;
    if (device.caps().target == Target::none) continue;
    const KernelId kernel = device.compile(increment_source());
    open.x = device.alloc(n * 4);
    const std::vector<int32_t> start(n, static_cast<int32_t>(all.size()));
    device.write(open.x, 0, start.data(), n * 4);
    const std::vector<Command> commands{Dispatch{kernel, {groups_for(n), 1, 1}, {{open.x, 0, n * 4}}, {n}}};
    open.work = device.record(commands, false);
    all.push_back(std::move(open));
  }
  if (all.size() < 2) GTEST_SKIP() << all.size() << " device(s) that run kernels; two are needed";
  for (int i = 0; i < 50; ++i) {
    for (const Open& open : all) open.device->submit(open.work);
  }
  for (size_t d = 0; d < all.size(); ++d) {
    if (all[d].id.rfind("null", 0) == 0) continue;
    std::vector<int32_t> back(n);
    all[d].device->read(all[d].x, 0, back.data(), n * 4);
    EXPECT_EQ(back, std::vector<int32_t>(n, static_cast<int32_t>(d) + 50)) << all[d].id;
  }
}

}  // namespace
}  // namespace heddle
