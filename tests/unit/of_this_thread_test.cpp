#include "heddle/core/base/of_this_thread.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

namespace heddle {
namespace {

std::string ended;  // of the thread under test; read once it has been joined

struct First {
  int value = 7;
  ~First() { ended += "first "; }
};
struct Second {
  ~Second() { ended += "second "; }
};
struct Asks {
  ~Asks() { ended += std::to_string(of_this_thread<First>().value) + " "; }
};
struct Throws {
  Throws() { throw std::runtime_error("no"); }
  ~Throws() { ended += "never "; }
};

template <class F>
std::string after(F&& work) {
  ended.clear();
  std::thread(work).join();
  return ended;
}

TEST(OfThisThread, EachThreadHasItsOwn) {
  First& here = of_this_thread<First>();
  here.value = 1;
  EXPECT_EQ(&here, &of_this_thread<First>());
  int there = 0;
  after([&] {
    there = of_this_thread<First>().value;
    of_this_thread<First>().value = 2;
  });
  EXPECT_EQ(there, 7);
  EXPECT_EQ(here.value, 1);
}

TEST(OfThisThread, TheNewestEndsFirst) {
  EXPECT_EQ(after([] { of_this_thread<First>(), of_this_thread<Second>(), of_this_thread<First>(); }), "second first ");
  EXPECT_EQ(after([] {}), "");
}

TEST(OfThisThread, AnObjectThatEndsMayAskForOthers) {
  EXPECT_EQ(after([] {
              of_this_thread<First>().value = 3;
              of_this_thread<Asks>();
            }),
            "3 first ");
  EXPECT_EQ(after([] { of_this_thread<Asks>(); }), "7 first ");  // made for it
}

TEST(OfThisThread, NothingStaysOfAConstructorThatThrows) {
  EXPECT_EQ(after([] { EXPECT_THROW(of_this_thread<Throws>(), std::runtime_error); }), "");
}

}  // namespace
}  // namespace heddle
