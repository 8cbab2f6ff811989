#include "heddle/core/base/of_this_thread.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"

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

struct Says {
  const char* text;
  ~Says() { std::puts(text), std::fflush(stdout); }
};
struct SaysMain : Says {
  SaysMain() : Says{"of the main thread"} {}
};

// For the child.
TEST(OfThisThread, DISABLED_EndsItsProcess) {
  static const Says early{"static"};
  of_this_thread<SaysMain>();
  std::exit(0);
}

TEST(OfThisThread, ThoseOfTheMainThreadEndBeforeStatics) {
  os::ChildProcess child(
      os::program_file(),
      {"child", "--gtest_also_run_disabled_tests", "--gtest_filter=OfThisThread.DISABLED_EndsItsProcess"}, {});
  std::string output;
  while (child.read(output, nullptr, 1)) {
  }
  const size_t own = output.find("of the main thread"), statics = output.find("static");
  EXPECT_LT(own, statics) << output;
  EXPECT_NE(statics, std::string::npos) << output;
}

}  // namespace
}  // namespace heddle
