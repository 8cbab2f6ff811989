// Streams over texts that say when memory runs out.
//
// Purpose: the standard's streams keep std::bad_alloc to themselves: one that is read looks as if its text had ended,
// one that is written loses what came last. Whoever goes on then has half of a vocabulary, or a configuration without
// its values. Errors: std::bad_alloc. Thread safety: a value.
#pragma once

#include <sstream>
#include <string>
#include <utility>

namespace heddle {

class TextInput : public std::istringstream {
 public:
  explicit TextInput(std::string text) : std::istringstream(std::move(text)) { exceptions(badbit); }
};

class TextOutput : public std::ostringstream {
 public:
  TextOutput() { exceptions(badbit); }
};

}  // namespace heddle
