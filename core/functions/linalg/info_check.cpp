#include "heddle/core/functions/linalg/info_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/host_array.h"
#include "heddle/core/base/unravel.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/graph/trace.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/graph/watched.h"

namespace heddle {
namespace {

// A value that cannot be asked for: it depends on an example of vmap or an argument of a loop's body.
bool beyond_reach(const NodePtr& node) {
  return any_without_value(node, [](const Node& at) { return is_example(at) || at.op == &ops::loop_arg_op; });
}

std::string message_of(const Shape& shape, const char* function, Failure failure, int64_t batch, int64_t number) {
  std::string where;
  if (shape.rank() > 0)
    where = fmt::format(" in matrix ({}) of the batch {}", fmt::join(unravel(shape, batch), ", "), shape.str());
  switch (failure) {
    case Failure::not_positive_definite:
      return fmt::format(
          "[{0}] the matrix must be positive definite; got a leading minor of order {1} that is not positive{2}; add a "
          "small multiple of the identity, "
          "or look at the info of {0}_ex()",
          function, number, where);
    case Failure::singular:
      return fmt::format(
          "[{0}] the matrix must be invertible; got 0 as pivot {1}{2}; use pinv() or lstsq(), or look at the info of "
          "{0}_ex()",
          function, number, where);
    case Failure::not_converged:
      return fmt::format(
          "[{}] the iteration must converge; it did not{}; the usual cause is a NaN or an infinity in the input",
          function, where);
    case Failure::rank:
      return fmt::format(
          "[{}] the matrix must have full rank; got column {} dependent on those before it{}; use pinv()", function,
          number, where);
  }
  return function;
}

}  // namespace

void watch_info(const Tensor& info, const char* function, Failure failure) {
  if (info.numel() == 0 || Trace::current() != nullptr || ExampleScope::active() || beyond_reach(info.node())) return;
  watch(info, [function, failure](const HostArray& values) {
    for (size_t i = 0; i < values.ints.size(); ++i) {
      if (values.ints[i] == 0) continue;
      throw LinAlgError(message_of(values.shape, function, failure, static_cast<int64_t>(i), values.ints[i]),
                        static_cast<int64_t>(i), values.ints[i]);
    }
  });
}

}  // namespace heddle
