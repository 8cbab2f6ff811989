#include "core/graph/info_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <deque>

#include "core/exec/evaluate.h"
#include "core/graph/functions_linalg.h"
#include "core/graph/loop.h"
#include "core/graph/post_order.h"
#include "core/graph/reference.h"
#include "core/graph/transform.h"

namespace heddle {
namespace {

struct Check {
  Tensor info;
  const char* function;
  Failure failure;
  Caller caller;
};

// The thread's; emptied from the front.
std::deque<Check>& watched() {
  thread_local std::deque<Check> list;
  return list;
}

// Beyond that, what has been computed is read although nobody looks at a value.
constexpr size_t most = 256;

// A value that cannot be asked for: it depends on an example of vmap or an argument of a loop's body.
bool beyond_reach(const NodePtr& node) {
  return any_without_value(node, [](const Node& at) { return is_example(at) || at.op == &ops::loop_arg_op; });
}

std::string message_of(const Check& w, int64_t batch, int64_t number) {
  std::string where;
  if (w.info.rank() > 0) {
    std::vector<int64_t> index(static_cast<size_t>(w.info.rank()));
    for (int d = w.info.rank() - 1; d >= 0; --d) {
      index[static_cast<size_t>(d)] = batch % w.info.dim(d);
      batch /= w.info.dim(d);
    }
    where = fmt::format(" in matrix ({}) of the batch {}", fmt::join(index, ", "), w.info.shape().str());
  }
  switch (w.failure) {
    case Failure::not_positive_definite:
      return fmt::format("[{0}] the matrix must be positive definite; got a leading minor of order {1} that is not positive{2}; add a small multiple of the identity, "
                         "or look at the info of {0}_ex()", w.function, number, where);
    case Failure::singular:
      return fmt::format("[{0}] the matrix must be invertible; got 0 as pivot {1}{2}; use pinv() or lstsq(), or look at the info of {0}_ex()", w.function, number, where);
    case Failure::not_converged:
      return fmt::format("[{}] the iteration must converge; it did not{}; the usual cause is a NaN or an infinity in the input", w.function, where);
    case Failure::rank:
      return fmt::format("[{}] the matrix must have full rank; got column {} dependent on those before it{}; use pinv()", w.function, number, where);
  }
  return w.function;
}

void check(const Check& w) {
  const HostArray values = read_value(*w.info.node());
  for (size_t i = 0; i < values.ints.size(); ++i) {
    if (values.ints[i] == 0) continue;
    const CallerScope scope(w.caller);
    throw LinAlgError(message_of(w, static_cast<int64_t>(i), values.ints[i]), static_cast<int64_t>(i), values.ints[i]);
  }
}

}  // namespace

void watch_info(const Tensor& info, const char* function, Failure failure) {
  if (info.numel() == 0 || Trace::current() != nullptr || ExampleScope::active() || beyond_reach(info.node())) return;
  std::deque<Check>& list = watched();
  if (list.size() >= most) {
    evaluate_pending();
    throw_watched();
  }
  list.push_back({info, function, failure, current_caller()});
  if (eager_mode()) throw_watched();
}

void throw_watched() {
  std::deque<Check>& list = watched();
  for (size_t i = 0; i < list.size();) {
    if (!list[i].info.node()->has_value()) {
      ++i;
      continue;
    }
    const Check one = std::move(list[i]);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(i));
    check(one);
  }
}

}  // namespace heddle
