// Size: a number of a recorded graph that may depend on the sizes that vary, such as N or 3 N T.
//
// Purpose: a function is recorded for several values of each size with a name; what differs between the recordings is
// fitted by a polynomial of degree 1 in each name. Invariants: two sizes are equal where they are for all values; at
// most Symbols::most names. Errors: ValueError "[export] ..." for a number that follows no such polynomial. Thread
// safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace heddle::onnx {

class Size {
 public:
  Size(int64_t number = 0) : terms_{number} {}
  // Factor of each product of names, a set of names being a mask of bits.
  explicit Size(std::vector<int64_t> terms);
  static Size of_name(size_t index);  // one name alone

  bool fixed() const { return terms_.size() == 1; }
  int64_t number() const { return terms_[0]; }  // where fixed; else the part without names
  const std::vector<int64_t>& terms() const { return terms_; }
  int64_t at(std::span<const int64_t> values) const;

  friend Size operator+(const Size& a, const Size& b);
  friend Size operator-(const Size& a, const Size& b);
  friend Size operator*(const Size& a, int64_t b);
  bool operator==(const Size&) const = default;

 private:
  std::vector<int64_t> terms_;  // the last one is not 0, unless it is the first
};
using Sizes = std::vector<Size>;

Sizes sizes_of(std::span<const int64_t> numbers);
bool all_fixed(const Sizes& sizes);
std::vector<int64_t> numbers_of(const Sizes& sizes);  // of fixed ones

// The names of sizes that vary, and the values for which a function is recorded.
class Symbols {
 public:
  static constexpr size_t most = 3;
  explicit Symbols(std::vector<std::string> names);
  const std::vector<std::string>& names() const { return names_; }
  size_t index(const std::string& name) const;

  // Recordings: one for each corner of a box of two values a name, and one beside it that tests the fit.
  size_t recordings() const { return names_.empty() ? 1 : (size_t{1} << names_.size()) + 1; }
  std::vector<int64_t> values(size_t recording) const;
  // The size that has these values, one a recording. `what` names it in errors.
  Size fitted(std::span<const int64_t> values, const std::string& what) const;
  // "N", "3 N T", "N + 1".
  std::string text(const Size& size) const;

 private:
  std::vector<std::string> names_;
};

}  // namespace heddle::onnx
