// The Vulkan backend's hazard tracking against a byte-by-byte simulation; needs no device.
#ifdef HEDDLE_HAS_VULKAN

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "backend_vulkan/hazards.h"

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

}  // namespace
}  // namespace heddle::vulkan

#endif
