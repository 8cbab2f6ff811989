// Calls that must be refused, and the text that says why.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string_view>
#include <vector>

#include "heddle/core/base/error.h"

namespace heddle::test {

struct Bad {
  std::function<void()> call;
  const char* text;
};

// `said(message, text)`: whether it says why.
template <class Exception, class Said>
void expect_thrown(const std::vector<Bad>& table, const Said& said) {
  for (const Bad& bad : table) {
    try {
      bad.call();
      ADD_FAILURE() << bad.text << ": no error";
    } catch (const Exception& e) {
      EXPECT_TRUE(said(std::string_view(e.what()), bad.text)) << bad.text << ": " << e.what();
    }
  }
}

inline void expect_refused(const std::vector<Bad>& table) {
  expect_thrown<UserError>(
      table, [](std::string_view message, const char* text) { return message.find(text) != std::string_view::npos; });
}

// Errors of one class alone; the texts are how the messages begin.
template <class Exception>
void expect_refused_as(const std::vector<Bad>& table) {
  expect_thrown<Exception>(table, [](std::string_view message, const char* text) { return message.starts_with(text); });
}

}  // namespace heddle::test
