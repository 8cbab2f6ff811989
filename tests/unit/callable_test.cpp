// Callable and Owned: what public headers hold instead of std::function and std::unique_ptr.
#include "heddle/core/base/callable.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/core/base/owned.h"

namespace heddle {
namespace {

int twice(int x) { return 2 * x; }

TEST(Callable, CallsWhatItWasMadeOf) {
  const Callable<int(int)> pointer = twice, closure = [offset = 3](int x) { return x + offset; };
  EXPECT_EQ(pointer(4), 8);
  EXPECT_EQ(closure(4), 7);
  const Callable<void(std::string&)> writes = [](std::string& text) {
    text += "!";
    return 5;  // dropped
  };
  std::string text = "so";
  writes(text);
  EXPECT_EQ(text, "so!");
}

TEST(Callable, TakesWhatCannotBeCopiedAsArgumentAndResult) {
  const Callable<std::unique_ptr<int>(std::unique_ptr<int>)> passes = [](std::unique_ptr<int> x) { return x; };
  EXPECT_EQ(*passes(std::make_unique<int>(7)), 7);
}

TEST(Callable, CopiesHaveStatesOfTheirOwn) {
  Callable<int()> counts = [n = 0]() mutable { return ++n; };
  EXPECT_EQ(counts(), 1);
  Callable<int()> copy = counts;
  EXPECT_EQ(copy(), 2);
  EXPECT_EQ(copy(), 3);
  EXPECT_EQ(counts(), 2);
  copy = counts;
  EXPECT_EQ(copy(), 3);
}

TEST(Callable, LeavesNothingBehind) {
  const auto token = std::make_shared<int>(1);
  {
    Callable<int()> a = [token] { return *token; };
    Callable<int()> b = a, c = std::move(a);
    EXPECT_FALSE(a);
    EXPECT_EQ(token.use_count(), 3);
    b = nullptr;
    EXPECT_EQ(token.use_count(), 2);
    const Callable<int()>& same = c;
    c = same;  // to itself
    EXPECT_EQ(c(), 1);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(Callable, IsEmptyWhenMadeOfNothing) {
  int (*none)(int) = nullptr;
  for (const Callable<int(int)>& empty :
       {Callable<int(int)>(), Callable<int(int)>(nullptr), Callable<int(int)>(none),
        Callable<int(int)>(std::function<int(int)>()), Callable<int(int)>(Callable<long(long)>())}) {
    EXPECT_FALSE(empty);
    EXPECT_TRUE(empty == nullptr);
    EXPECT_THROW(empty(1), std::bad_function_call);
  }
}

TEST(Callable, ConvertsFromWhatCanBeCalledSoAndNothingElse) {
  static_assert(std::is_convertible_v<std::function<int(int)>, Callable<int(int)>>);
  static_assert(std::is_convertible_v<Callable<int(int)>, std::function<int(int)>>);
  static_assert(!std::is_convertible_v<std::string, Callable<int(int)>>);
  static_assert(!std::is_convertible_v<int (*)(std::string), Callable<int(int)>>);
  const std::function<int(int)> other = Callable<int(int)>(twice);
  EXPECT_EQ(other(5), 10);
}

struct Noted {
  Noted(std::vector<int>& to, int id) : log(to), number(id) {}
  ~Noted() { log.push_back(number); }
  std::vector<int>& log;
  int number;
};

TEST(Owned, DeletesOnce) {
  std::vector<int> log;
  {
    Owned<Noted> one(std::make_unique<Noted>(log, 1)), none;
    EXPECT_FALSE(none);
    one = std::make_unique<Noted>(log, 2);
    EXPECT_EQ(log, (std::vector{1}));
    EXPECT_EQ(one->number, 2);
    none = std::make_unique<Noted>(log, 3);
    none.reset();
    EXPECT_FALSE(none);
    EXPECT_EQ(log, (std::vector{1, 3}));
  }
  EXPECT_EQ(log, (std::vector{1, 3, 2}));
  static_assert(!std::is_copy_constructible_v<Owned<Noted>> && !std::is_copy_assignable_v<Owned<Noted>>);
}

}  // namespace
}  // namespace heddle
