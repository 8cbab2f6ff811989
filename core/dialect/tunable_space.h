// TunableSpace: which tunables a body has, their choices, and which values go together.
//
// Purpose: the tuner searches it, and tuned() drops entries of a file that it refuses. Built-in bodies declare theirs
// in shaders/*.hk (`tune` and `require`; a `fact` states something about the operands and is never searched). Generated
// kernels have no file: their spaces are rows of generated_spaces() in tunable_space.cpp. Thread safety: pure
// functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

struct TunableSpace {
  // Of a generated kernel: values are not compiled in, so anything between the least and the largest choice is taken,
  // and only what the default names matters.
  bool generated = false;
  std::vector<KernelTunable> tunables;  // what may be searched
  // Why these values are refused; empty: they go together. Values that are not given have their defaults.
  std::string (*refusal)(std::string_view body, const Bindings& values) = nullptr;
  // False when a tunable makes no difference beside these values (which are not refused).
  bool (*matters)(std::string_view body, std::string_view tunable, const Bindings& values) = nullptr;
};

bool has_tunable_space(std::string_view body);
// ValueError for a body without tunables; lists the known ones.
TunableSpace tunable_space(std::string_view body);
std::vector<std::string> tunable_bodies();

}  // namespace heddle
