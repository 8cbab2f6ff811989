// Calls that must be refused, and the text that says why.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/error.h"

namespace heddle::test {

struct Bad {
  std::function<void()> call;
  const char* text;
};

inline void expect_refused(const std::vector<Bad>& table) {
  for (const Bad& bad : table) {
    try {
      bad.call();
      ADD_FAILURE() << bad.text << ": no error";
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(bad.text), std::string::npos) << bad.text << ": " << e.what();
    }
  }
}

// Errors of one class alone; the texts are how the messages begin.
template <class Exception>
void expect_refused_as(const std::vector<Bad>& table) {
  for (const Bad& bad : table) {
    try {
      bad.call();
      ADD_FAILURE() << bad.text << ": no error";
    } catch (const Exception& e) {
      EXPECT_TRUE(std::string_view(e.what()).starts_with(bad.text)) << bad.text << ": " << e.what();
    }
  }
}

}  // namespace heddle::test
