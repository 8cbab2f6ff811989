#include "core/graph/index_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/base/debug_switch.h"
#include "core/base/unravel.h"
#include "core/graph/build_shape.h"
#include "core/graph/reference.h"
#include "core/graph/watched.h"

namespace heddle {
namespace {

struct IndexTag {
  static constexpr const char* variable = "HEDDLE_CHECK_INDICES";
};
using Switch = DebugSwitch<IndexTag>;

// The row-major number of the first index out of range and that index (..., 2), in the dtype of the indices; the number of them all where there is none.
Tensor first_fault(const Tensor& indices, const build::IndexRule& rule) {
  const int64_t n = indices.numel();
  const double low = rule.from_end ? -static_cast<double>(rule.size) : 0;
  Tensor outside = indices < low || indices >= static_cast<double>(rule.size);
  if (rule.used.defined()) outside = outside && build::broadcast(rule.used, indices.shape());
  const Shape flat{n};
  const Tensor first = min(where(reshape(outside, flat), build::positions(flat, 0, indices.device()), static_cast<double>(n)));
  const Tensor index = take(reshape(indices, flat), minimum(first, static_cast<double>(n - 1)));
  return stack({cast(first, indices.dtype()), index});
}

std::string text_of(const std::vector<int64_t>& index) { return fmt::format("({})", fmt::join(index, ", ")); }

}  // namespace

bool index_guard() { return Switch::on(); }
void set_index_guard(bool on) { Switch::set(on); }

IndexGuardScope::IndexGuardScope(bool on) : before_(Switch::exchange(on ? 1 : 0)) {}
IndexGuardScope::~IndexGuardScope() { Switch::exchange(before_); }

namespace build {

void watch_indices(const char* op, const Tensor& indices, const IndexRule& rule) {
  if (!index_guard() || indices.numel() == 0 || current_place().backward || CallerScope::public_function() != op) return;
  const IndexGuardScope off(false);
  const NoGradScope no_grad;
  watch(first_fault(indices, rule), [op, shape = indices.shape(), axis = rule.axis, size = rule.size, noun = rule.noun](const HostArray& faults) {
    for (size_t i = 0; i < faults.ints.size(); i += 2) {
      const int64_t number = faults.ints[i], index = faults.ints[i + 1];
      if (number < 0 || number >= shape.numel()) continue;
      const std::vector<int64_t> position = unravel(shape, number);
      std::string text = fmt::format("[{}] {} {} is out of range for dimension {} of size {}, at position {}", op, noun, index, axis, size, text_of(position));
      const Shape around = faults.shape.without(faults.shape.rank() - 1);  // mapped axes and loops
      if (around.rank() > 0) text += fmt::format(" of example or iteration {}", text_of(unravel(around, static_cast<int64_t>(i / 2))));
      throw IndexError(text, index, size, position);
    }
  });
}

}  // namespace build
}  // namespace heddle
