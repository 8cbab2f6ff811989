#include "heddle/onnx/export/size.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"

namespace heddle::onnx {
namespace {

// Values that no layer has of itself: a size that happens to equal another one would be recorded in another way.
constexpr int64_t low[Symbols::most] = {11, 19, 31}, high[Symbols::most] = {13, 23, 37},
                  beside[Symbols::most] = {17, 29, 41};

}  // namespace

Size::Size(std::vector<int64_t> terms) : terms_(std::move(terms)) {
  while (terms_.size() > 1 && terms_.back() == 0) terms_.pop_back();
  if (terms_.empty()) terms_.push_back(0);
}

Size Size::of_name(size_t index) {
  std::vector<int64_t> terms((size_t{1} << index) + 1);
  terms.back() = 1;
  return Size(std::move(terms));
}

int64_t Size::at(std::span<const int64_t> values) const {
  int64_t sum = 0;
  for (size_t mask = 0; mask < terms_.size(); ++mask) {
    int64_t product = terms_[mask];
    for (size_t i = 0; i < values.size(); ++i) {
      if ((mask >> i & 1) != 0) product *= values[i];
    }
    sum += product;
  }
  return sum;
}

Size operator+(const Size& a, const Size& b) {
  std::vector<int64_t> terms = a.terms_;
  terms.resize(std::max(a.terms_.size(), b.terms_.size()));
  for (size_t i = 0; i < b.terms_.size(); ++i) terms[i] += b.terms_[i];
  return Size(std::move(terms));
}
Size operator*(const Size& a, int64_t b) {
  std::vector<int64_t> terms = a.terms_;
  for (int64_t& term : terms) term *= b;
  return Size(std::move(terms));
}
Size operator-(const Size& a, const Size& b) { return a + b * -1; }

Sizes sizes_of(std::span<const int64_t> numbers) { return {numbers.begin(), numbers.end()}; }
bool all_fixed(const Sizes& sizes) { return std::ranges::all_of(sizes, &Size::fixed); }
std::vector<int64_t> numbers_of(const Sizes& sizes) {
  std::vector<int64_t> numbers;
  for (const Size& size : sizes) numbers.push_back(size.number());
  return numbers;
}

Symbols::Symbols(std::vector<std::string> names) : names_(std::move(names)) {
  if (names_.size() > most)
    throw ValueError(
        fmt::format("[export] {} sizes vary ({}); {} is the most", names_.size(), fmt::join(names_, ", "), most));
}

size_t Symbols::index(const std::string& name) const {
  return static_cast<size_t>(std::ranges::find(names_, name) - names_.begin());
}

std::vector<int64_t> Symbols::values(size_t recording) const {
  std::vector<int64_t> values;
  for (size_t i = 0; i < names_.size(); ++i)
    values.push_back(recording + 1 == recordings() ? beside[i] : (recording >> i & 1) != 0 ? high[i] : low[i]);
  return values;
}

// Differences along one name after the other.
Size Symbols::fitted(std::span<const int64_t> values, const std::string& what) const {
  if (std::ranges::all_of(values, [&](int64_t v) { return v == values[0]; })) return values[0];
  std::vector<int64_t> terms(values.begin(), values.begin() + (ptrdiff_t{1} << names_.size()));
  bool fits = true;
  for (size_t i = 0; i < names_.size(); ++i) {
    const int64_t step = high[i] - low[i];
    for (size_t mask = 0; mask < terms.size(); ++mask) {
      if ((mask >> i & 1) == 0) continue;
      int64_t &with = terms[mask], &without = terms[mask ^ (size_t{1} << i)];
      fits = fits && (with - without) % step == 0;
      with = (with - without) / step;
      without -= with * low[i];
    }
  }
  const Size size(std::move(terms));
  if (!fits || size.at(this->values(recordings() - 1)) != values.back()) {
    throw ValueError(fmt::format("[export] {} follows {} in no simple way; give numbers in place of those names", what,
                                 fmt::join(names_, " and ")));
  }
  return size;
}

std::string Symbols::text(const Size& size) const {
  std::string text;
  for (size_t mask = size.terms().size(); mask-- > 0;) {
    const int64_t factor = size.terms()[mask];
    if (factor == 0 && !(mask == 0 && text.empty())) continue;
    std::vector<std::string> factors;
    if (factor != 1 || mask == 0) factors.push_back(std::to_string(factor));
    for (size_t i = 0; i < names_.size(); ++i) {
      if ((mask >> i & 1) != 0) factors.push_back(names_[i]);
    }
    text += fmt::format("{}{}", text.empty() ? "" : " + ", fmt::join(factors, " "));
  }
  return text;
}

}  // namespace heddle::onnx
