// Tensor::str(): values as nested lists, long ones shortened.
#include <fmt/format.h>

#include <ostream>

#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/read_value.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {
namespace {

constexpr int64_t whole_limit = 1000;  // elements printed without shortening
constexpr int64_t edge = 3;            // elements shown at each end of a shortened axis

std::string element(const HostArray& values, size_t i) {
  if (values.dtype == DType::boolean) return values.ints[i] ? "true" : "false";
  if (!is_float(values.dtype)) return fmt::format("{}", values.ints[i]);
  return fmt::format("{:.6g}", values.floats[i]);
}

class Printer {
 public:
  explicit Printer(const HostArray& values) : values_(values), shorten_(values.shape.numel() > whole_limit) {}

  // The part of the array from element `at`, along `axis` and the axes behind it, `count` elements long.
  void print(int axis, size_t at, int64_t count) {
    if (axis == values_.shape.rank()) {
      text += element(values_, at);
      return;
    }
    const int64_t size = values_.shape[axis];
    const int64_t step = size > 0 ? count / size : 0;
    text += '[';
    for (int64_t i = 0; i < size; ++i) {
      if (shorten_ && size > 2 * edge && i == edge) {
        text += ", ...";
        i = size - edge;
      }
      if (i > 0) text += ", ";
      print(axis + 1, at + static_cast<size_t>(i * step), step);
    }
    text += ']';
  }

  std::string text;

 private:
  const HostArray& values_;
  bool shorten_;
};

}  // namespace

std::string Tensor::str(Caller caller) const {
  if (!defined()) return "tensor(undefined)";
  to_bytes(caller);  // the observation: evaluates
  const NodePtr& n = node();
  const HostArray values = read_value(*n);
  Printer printer(values);
  printer.print(0, 0, values.shape.numel());
  return fmt::format("tensor({}, {}, {})", printer.text, name_of(dtype()), device().id());
}

std::ostream& operator<<(std::ostream& out, TensorArg x) { return out << x.tensor.str(x.caller); }

}  // namespace heddle
