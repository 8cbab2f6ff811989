// Ranks as a grid: coordinates, groups, and what is refused.
#include "heddle/distributed/mesh.h"

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "tests/support/expect_error.h"

namespace heddle::distributed {
namespace {

TEST(Mesh, TheLastAxisHasNeighbours) {
  const Mesh mesh({{"dp", 2}, {"tp", 3}}, 6);
  EXPECT_EQ(mesh.coordinates(0), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(mesh.coordinates(1), (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(mesh.coordinates(5), (std::vector<int64_t>{1, 2}));
  for (int rank = 0; rank < 6; ++rank) EXPECT_EQ(mesh.rank_at(mesh.coordinates(rank)), rank);
  EXPECT_EQ(mesh.size("tp"), 3);
  EXPECT_EQ(mesh.str(), "dp=2,tp=3");
}

TEST(Mesh, GroupsAreLinesOfTheGrid) {
  const Mesh mesh({{"dp", 2}, {"pp", 2}, {"tp", 2}}, 8);
  EXPECT_EQ(mesh.groups({"tp"}), (Partition{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(mesh.groups({"dp"}), (Partition{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(mesh.groups({"dp", "tp"}), (Partition{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  EXPECT_EQ(mesh.groups({"tp", "dp"}), mesh.groups({"dp", "tp"}));  // the mesh has the order
  EXPECT_EQ(mesh.groups({"tp", "dp", "pp"}), (Partition{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(mesh.groups({}).size(), 8u);
}

TEST(Mesh, IsReadFromText) {
  EXPECT_EQ(Mesh::parse("dp=2,tp=4", 8).str(), "dp=2,tp=4");
  EXPECT_EQ(Mesh::parse("dp=1", 1).size("dp"), 1);
  for (const char* text : {"", "dp", "dp=", "=2", "dp=2,", "dp=2,,tp=1", "dp=2x", "dp=2.0", ",dp=2"})
    tests::expect_error<ValueError>([&] { Mesh::parse(text, 2); }, {"is no axis; a mesh is written as dp=2,tp=4"});
}

TEST(Mesh, RefusesWhatIsNoGrid) {
  using tests::expect_error;
  expect_error<ValueError>(
      [] {
        Mesh({{"dp", 2}, {"tp", 3}}, 4);
      },
      {"[mesh] dp=2,tp=3 needs 6 ranks; the world has 4"});
  expect_error<ValueError>([] { Mesh({}, 4); }, {"needs 1 rank; the world has 4"});
  expect_error<ValueError>([] { Mesh({{"dp", 2}, {"dp", 2}}, 4); }, {"[mesh] two axes are called dp"});
  expect_error<ValueError>([] { Mesh({{"dp", 0}}, 4); }, {"[mesh] dp is 0; it must be at least 1"});
  expect_error<ValueError>([] { Mesh({{"", 4}}, 4); }, {"[mesh] an axis has no name"});
  expect_error<ValueError>([] { Mesh({{"a", INT64_MAX}, {"b", INT64_MAX}}, 4); }, {"needs more than 2^63 ranks"});
  const Mesh mesh({{"dp", 2}}, 2);
  expect_error<ValueError>([&] { mesh.size("tp"); }, {"[mesh] dp=2 has no axis 'tp'"});
  expect_error<ValueError>([&] { mesh.groups({"dp", "dp"}); }, {"[mesh] the axis dp stands twice"});
  expect_error<ValueError>([&] { mesh.coordinates(2); }, {"[mesh] rank 2 is not below 2"});
  expect_error<ValueError>([&] { mesh.rank_at({2}); }, {"[mesh] dp=2 is outside of dp=2"});
  expect_error<ValueError>([&] { mesh.rank_at({0, 0}); }, {"[mesh] 2 coordinates for the 1 axes of dp=2"});
}

}  // namespace
}  // namespace heddle::distributed
