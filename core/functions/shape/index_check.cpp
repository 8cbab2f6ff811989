#include "heddle/core/functions/shape/index_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string_view>

#include "heddle/core/base/host_array.h"
#include "heddle/core/base/of_this_thread.h"
#include "heddle/core/base/unravel.h"
#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/shape.h"
#include "heddle/core/graph/host_indices.h"
#include "heddle/core/graph/trace.h"
#include "heddle/core/graph/watched.h"

namespace heddle {
namespace {

IndexGuard mode_of_environment() {
  const char* value = std::getenv("HEDDLE_CHECK_INDICES");
  if (value == nullptr || *value == 0) return IndexGuard::automatic;
  return std::string_view(value) == "0" ? IndexGuard::off : IndexGuard::on;
}
std::atomic<IndexGuard>& everywhere() {
  static std::atomic<IndexGuard> mode = mode_of_environment();
  return mode;
}
thread_local signed char here = -1;  // an IndexGuard, or -1: that of all threads
struct Traced {
  std::vector<build::IndexBound> bounds;
};

// The row-major number of the first index out of range and that index (..., 2), in the dtype of the indices; the number
// of them all where there is none.
Tensor first_fault(const Tensor& indices, const build::IndexRule& rule) {
  const int64_t n = indices.numel();
  const double low = rule.from_end ? -static_cast<double>(rule.size) : 0;
  Tensor outside = indices < low || indices >= static_cast<double>(rule.size);
  if (rule.used.defined()) outside = outside && build::broadcast(rule.used, indices.shape());
  const Shape flat{n};
  const Tensor first =
      min(where(reshape(outside, flat), build::positions(flat, 0, indices.device()), static_cast<double>(n)));
  // The row of take(), which asks this file about its indices.
  const Tensor all = reshape(indices, flat), at = minimum(first, static_cast<double>(n - 1));
  const Tensor index = build::record(ops::take_op, {&all, &at}, axis_attrs(0), at.shape(), indices.dtype());
  return stack({cast(first, indices.dtype()), index});
}

// Without tensors: judges outlive the call.
build::IndexRule plain(build::IndexRule rule) {
  rule.used = Tensor();
  return rule;
}

std::string text_of(const std::vector<int64_t>& index) { return fmt::format("({})", fmt::join(index, ", ")); }

[[noreturn]] void throw_out_of_range(const char* op, const build::IndexRule& rule, int64_t index,
                                     const std::vector<int64_t>& position, const std::string& around) {
  throw IndexError(fmt::format("[{}] {} {} is out of range for dimension {} of size {}, at position {}{}", op,
                               rule.noun, index, rule.axis, rule.size, text_of(position), around),
                   index, rule.size, position);
}

// Whether uploaded indices are all that there is to look at; throws for the first that is out of range.
bool checked_on_host(const char* op, const Tensor& indices, const build::IndexRule& rule) {
  if (rule.used.defined() && !rule.ignored) return false;
  const std::optional<HostSource> source = host_source(indices.node());
  if (!source) return false;
  if (!rule.allows(source->all->low) || !rule.allows(source->all->high)) {
    for (int64_t i = 0; i < indices.numel(); ++i) {
      const int64_t index = source->all->values[source->first + static_cast<size_t>(i)];
      if (!rule.allows(index)) throw_out_of_range(op, rule, index, unravel(indices.shape(), i), "");
    }
  }
  if (Trace::current() != nullptr)
    of_this_thread<Traced>().bounds.push_back({source->storage, rule.size, rule.from_end, rule.ignored});
  return true;
}

// Whether a device looks at indices that it computed itself.
bool looked_at_there(const Tensor& indices) {
  const DeviceClass kind = indices.device().caps().device_class;
  return Trace::current() == nullptr && (kind == DeviceClass::cpu || kind == DeviceClass::reference);
}

}  // namespace

IndexGuard index_guard_mode() {
  return here < 0 ? everywhere().load(std::memory_order_relaxed) : static_cast<IndexGuard>(here);
}
void set_index_guard(IndexGuard mode) { everywhere().store(mode, std::memory_order_relaxed); }

IndexGuardScope::IndexGuardScope(IndexGuard mode) : before_(std::exchange(here, static_cast<signed char>(mode))) {}
IndexGuardScope::~IndexGuardScope() { here = before_; }

namespace build {

void watch_indices(const char* op, const Tensor& indices, const IndexRule& rule) {
  const IndexGuard mode = index_guard_mode();
  if (mode == IndexGuard::off || indices.numel() == 0 || current_line().backward ||
      CallerScope::public_function() != op)
    return;
  if (mode == IndexGuard::automatic && (checked_on_host(op, indices, rule) || !looked_at_there(indices))) return;
  const IndexGuardScope off(false);
  const NoGradScope no_grad;
  watch(first_fault(indices, rule), [op, shape = indices.shape(), rule = plain(rule)](const HostArray& faults) {
    for (size_t i = 0; i < faults.ints.size(); i += 2) {
      const int64_t number = faults.ints[i], index = faults.ints[i + 1];
      if (number < 0 || number >= shape.numel()) continue;
      const Shape around = faults.shape.without(faults.shape.rank() - 1);  // mapped axes and loops
      throw_out_of_range(op, rule, index, unravel(shape, number),
                         around.rank() > 0 ? fmt::format(" of example or iteration {}",
                                                         text_of(unravel(around, static_cast<int64_t>(i / 2))))
                                           : "");
    }
  });
}

std::vector<IndexBound> take_index_bounds() { return std::exchange(of_this_thread<Traced>().bounds, {}); }

bool fits_bound(const Tensor& argument, const IndexBound& bound) {
  const std::optional<HostSource> source = host_source(argument.node());
  if (!source) return true;
  const IndexRule rule{.size = bound.size, .from_end = bound.from_end, .ignored = bound.ignored};
  if (rule.allows(source->all->low) && rule.allows(source->all->high)) return true;
  const auto first = source->all->values.begin() + static_cast<ptrdiff_t>(source->first);
  return std::all_of(first, first + argument.numel(), [&](int64_t index) { return rule.allows(index); });
}

}  // namespace build
}  // namespace heddle
