// LaunchConstants: the numbers of a kernel that its text names and its launch gives.
//
// Purpose: kernels of equal structure have equal text, whatever their sizes; so numbers become constants of the launch.
// Three ways to name them. Plain: equal numbers share a name, and -1, 0 and 1 are literals. Where sizes vary: each
// place has a name of its own, also where its number is 0 or 1. Joined: likewise, and the numbers are columns of a
// table. Invariants: never more constants than the limit; what no longer has room is a literal. Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/contract/kernel_source.h"

namespace heddle {

class LaunchConstants {
 public:
  LaunchConstants(size_t limit, bool joined, bool varying) : limit_(limit), joined_(joined), varying_(varying) {}

  // The name (or literal) of a number at one place of the text.
  std::string integer(int64_t value);
  // A constant of its own, whatever its value.
  std::string named(int64_t value);
  // The factor of a variable in an index (-1: what is added). Where sizes vary, strides along one dimension are equal
  // because shapes are, hardly ever by chance: they share a name.
  std::string coefficient(int variable, int64_t value);
  // Nothing when there is no room.
  std::optional<std::string> real(float value);
  // A zero that no compiler knows.
  std::string hidden_zero(bool negative);

  bool full() const { return params_.size() >= limit_; }
  // Whether a number that should have had a name became text because the constants were used up.
  bool overflowed() const { return overflowed_; }
  void set_overflowed() { overflowed_ = true; }

  const std::vector<ConstParam>& params() const { return params_; }
  const std::vector<uint32_t>& values() const { return values_; }
  void clear();

 private:
  std::string add(std::string name, ConstParam::Type type, uint32_t bits);

  size_t limit_;
  bool joined_, varying_, overflowed_ = false;
  std::vector<ConstParam> params_;
  std::vector<uint32_t> values_;
  std::map<int64_t, std::string> integers_;
  std::map<std::pair<int, int64_t>, std::string> coefficients_;  // varying: by variable
};

}  // namespace heddle
