// expect_error: a call throws an E whose message holds every piece. For tests of what an error says.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace heddle::tests {

template <class E, class F>
void expect_error(const F& f, std::initializer_list<const char*> pieces) {
  try {
    f();
    FAIL() << "no exception";
  } catch (const E& error) {
    for (const char* piece : pieces)
      EXPECT_NE(std::string(error.what()).find(piece), std::string::npos) << error.what() << " lacks: " << piece;
  }
}

}  // namespace heddle::tests
