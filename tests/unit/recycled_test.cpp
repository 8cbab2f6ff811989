// RecycledAllocator: objects are whole wherever they are freed, and a thread takes again what it freed.
#include "heddle/core/base/recycled.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <unordered_set>
#include <vector>

namespace heddle {
namespace {

// Each test has a type, so a list, of its own.
template <int test>
struct Object {
  explicit Object(int v) : values(40, v) {}
  std::vector<int> values;
};
template <int test>
using Pointer = std::shared_ptr<Object<test>>;
template <int test>
Pointer<test> make(int value) {
  return std::allocate_shared<Object<test>>(RecycledAllocator<Object<test>>(), value);
}
template <int test>
void expect_values(const std::vector<Pointer<test>>& all) {
  for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i]->values, std::vector<int>(40, static_cast<int>(i)));
}

TEST(Recycled, AThreadTakesAgainWhatItFreed) {
  std::vector<Pointer<1>> all;
  for (int i = 0; i < 100; ++i) all.push_back(make<1>(i));
  std::unordered_set<const void*> before;
  for (const auto& object : all) before.insert(object.get());
  EXPECT_EQ(before.size(), 100u);
  all.clear();
  for (int i = 0; i < 100; ++i) all.push_back(make<1>(i));
  expect_values<1>(all);
  if (detail::recycles) {
    for (const auto& object : all) EXPECT_TRUE(before.contains(object.get()));
  }
}

TEST(Recycled, MoreThanAreKept) {
  const int count = static_cast<int>(2 * RecycledAllocator<Object<2>>::most + 7);
  for (int round = 0; round < 3; ++round) {
    std::vector<Pointer<2>> all;
    for (int i = 0; i < count; ++i) all.push_back(make<2>(i));
    expect_values<2>(all);
  }
}

// Made here and freed there, and the other way round, past the end of the thread that made them.
TEST(Recycled, AnyThreadFrees) {
  std::vector<Pointer<3>> mine, theirs;
  for (int i = 0; i < 300; ++i) mine.push_back(make<3>(i));
  std::thread([&] {
    for (int i = 0; i < 300; ++i) theirs.push_back(make<3>(i));
    mine.resize(100);
    for (int i = 100; i < 300; ++i) mine.push_back(make<3>(i));
  }).join();
  expect_values<3>(mine);
  expect_values<3>(theirs);
  theirs.clear();
  for (int i = 0; i < 300; ++i) theirs.push_back(make<3>(i));
  expect_values<3>(mine);
  expect_values<3>(theirs);
}

}  // namespace
}  // namespace heddle
