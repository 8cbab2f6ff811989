// The Vulkan backend's hazard tracking against a byte-by-byte simulation; needs no device.
#ifdef HEDDLE_HAS_VULKAN

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "heddle/backend_vulkan/hazards.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/run/planner.h"
#include "heddle/heddle.h"

namespace heddle::vulkan {
namespace {

Touch touch(uint64_t buffer, uint64_t begin, uint64_t end, bool reads, bool writes) {
  return {{BufferId{buffer}, begin, end - begin}, reads, writes};
}

bool conflict(const Hazards& hazards, const Touch& t) { return hazards.conflict({&t, 1}); }
void add(Hazards& hazards, const Touch& t) { hazards.add({&t, 1}); }

TEST(VulkanHazards, ReadsDoNotConflict) {
  Hazards hazards;
  add(hazards, touch(1, 0, 64, true, false));
  EXPECT_FALSE(conflict(hazards, touch(1, 0, 64, true, false)));
  EXPECT_TRUE(conflict(hazards, touch(1, 63, 64, false, true))) << "write after read";
  EXPECT_FALSE(conflict(hazards, touch(1, 64, 65, false, true))) << "a neighbour";
  EXPECT_FALSE(conflict(hazards, touch(2, 0, 64, false, true))) << "another buffer";
}

TEST(VulkanHazards, WritesConflictWithEverythingThatOverlaps) {
  Hazards hazards;
  add(hazards, touch(1, 16, 32, false, true));
  EXPECT_TRUE(conflict(hazards, touch(1, 31, 40, true, false))) << "read after write";
  EXPECT_TRUE(conflict(hazards, touch(1, 0, 17, false, true))) << "write after write";
  EXPECT_FALSE(conflict(hazards, touch(1, 0, 16, true, true)));
  EXPECT_FALSE(conflict(hazards, touch(1, 32, 48, true, true)));
  hazards.clear();
  EXPECT_FALSE(conflict(hazards, touch(1, 16, 32, true, true)));
}

TEST(VulkanHazards, AgreesWithBytes) {
  constexpr uint64_t bytes = 96;
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    Hazards hazards;
    std::array<std::array<bool, bytes>, 2> read{}, written{};
    for (int step = 0; step < 40; ++step) {
      const uint64_t buffer = random() % 2, begin = random() % bytes,
                     end = begin + 1 + random() % std::min<uint64_t>(24, bytes - begin);
      const int kind = static_cast<int>(random() % 3);
      const Touch t = touch(buffer + 1, begin, end, kind != 1, kind != 0);
      bool expected = false;
      for (uint64_t i = begin; i < end; ++i) expected |= written[buffer][i] || (t.writes && read[buffer][i]);
      ASSERT_EQ(conflict(hazards, t), expected) << "round " << round << " step " << step;
      add(hazards, t);
      for (uint64_t i = begin; i < end; ++i) {
        read[buffer][i] |= t.reads;
        written[buffer][i] |= t.writes;
      }
    }
  }
}

// ---- barriers of a planned step, as a recording would place them

// Ranges of the kernels' buffers: inputs and results lie apart, temporaries where the plan put them.
uint32_t barriers_of_pending() {
  const Caps caps = device("null:0").caps();
  const Plan plan = make_plan(prepare(import_graph(capture(held_pending())), caps), caps);
  const auto range = [&](SlotRef slot) -> Binding {
    constexpr uint64_t apart = uint64_t{1} << 20;
    if (slot.kind != SlotRef::Kind::vertex)
      return {BufferId{slot.kind == SlotRef::Kind::input ? 1u : 2u}, static_cast<uint64_t>(slot.index) * apart, apart};
    const auto temporary = plan.memory.temporaries.find(slot.index);
    if (temporary == plan.memory.temporaries.end())
      return {BufferId{3}, static_cast<uint64_t>(slot.index) * apart, apart};
    return {BufferId{4}, plan.memory.arena.placements[temporary->second].offset,
            plan.memory.lifetimes[temporary->second].bytes};
  };
  Hazards hazards;
  uint32_t barriers = 0;
  for (const LoweredKernel& kernel : plan.kernels) {
    std::vector<Touch> touches;
    kernel.for_each_binding([&](SlotRef slot, Access access) {
      touches.push_back({range(slot), access != Access::write, access != Access::read});
    });
    if (hazards.conflict(touches)) {
      hazards.clear();
      ++barriers;
    }
    hazards.add(touches);
  }
  return barriers;
}

Tensor leaf(const Shape& shape) {
  return Tensor::from_vector(std::vector<float>(static_cast<size_t>(shape.numel()), 0.5f), shape, &device("null:0"));
}

TEST(VulkanBarriers, KernelsThatCanRunTogetherAreNotSeparated) {
  const Tensor a = leaf({40, 30}), b = leaf({30, 20}), c = leaf({30, 50});
  {
    const Tensor x = matmul(a, b), y = matmul(a, c), z = sum(a, {0});
    EXPECT_EQ(barriers_of_pending(), 0u);
  }
  {
    const Tensor y = matmul(transpose(matmul(a, b)), matmul(a, c));
    EXPECT_EQ(barriers_of_pending(), 1u) << "the last product waits for both others, which do not wait for each other";
  }
}

}  // namespace
}  // namespace heddle::vulkan

#endif
