// What `heddle profile` prints.
//
// Purpose: the rows of a profile beside the machine's bounds. The bound of a kernel is the larger of two times: its
// bytes at the speed at which the device copies (or reads, for kernels that hardly write) as many bytes, its operations
// at the device's peak of multiply-adds; both measured here, by bench/bounds.h, after the profile. Thread safety: none.
#pragma once

#include <string>

#include "heddle/core/inspect/profile.h"

namespace heddle::tools {

struct ProfileText {
  std::string what;    // "step gpt:4x128x12x128"
  int64_t steps = 1;   // that the profile covers
  size_t top = 40;     // rows of the table
  double wall = 0;     // seconds of the steps together
  double untimed = 0;  // seconds of one step, replayed without time stamps; 0: not measured
  bool bounds = true;
  bool json = false;
};

void report_profile(const Profile& profile, const ProfileText& text);

}  // namespace heddle::tools
