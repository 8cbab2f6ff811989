// What a user says of a kernel, and what its calls take: the parts of core/functions/user/user_kernel.h, which explains
// them.
//
// Thread safety: plain data.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// What a driver's compiler said of a user's text: the line is the text's own, the first is 1 (0: the driver named
// none).
class UserKernelError : public CompileError {
 public:
  UserKernelError(const std::string& message, std::string log, int line)
      : CompileError(message, std::move(log)), line_(line) {}
  int line() const { return line_; }

 private:
  int line_;
};

// What a derivative rule sees. Elementwise: inputs as they went in, cast and broadcast to one shape. One cotangent for
// each output, one tangent for each input, zeros where there is none.
struct UserCall {
  std::vector<Tensor> inputs, outputs;
  std::vector<Tensor> cotangents;  // vjp only
  std::vector<Tensor> tangents;    // jvp only
};
// vjp: a cotangent for each input; jvp: a tangent for each output. Undefined means zero. Recorded code, linear in what
// it is given: differentiated in turn for higher orders.
using UserRule = Callable<std::vector<Tensor>(const UserCall& call)>;

// An input or output of an elementwise kernel. Without a dtype: the common one, as the rule of the kernel says.
struct UserValue {
  UserValue(const char* value_name, std::optional<DType> type = {});
  UserValue(std::string value_name, std::optional<DType> type = {});
  std::string name;
  std::optional<DType> dtype;
};

struct UserElementwise {
  static std::vector<UserValue> only_output();
  std::string name;  // letters, digits, single underscores
  std::vector<UserValue> inputs;
  std::vector<UserValue> outputs = only_output();  // {"out"}
  std::string text;
  // Of the common dtype: floating (integers become f32) or numeric (integers stay; bool becomes i32).
  DTypeRule rule = DTypeRule::floating;
  Autocast autocast = Autocast::widest;  // of the common dtype, within an AutocastScope
  int iterations = 0;  // the most that all loops of the text run for one element: needed where there are loops, because
                       // some drivers end long ones in silence
  int cost = 0;        // of one element: 1 an addition, 10 a transcendental; 0: guessed from the text
  Callable<void(std::span<const double> in, std::span<double> out)> host =
      {};                       // one element; integers beyond 2^53 lose digits
  UserRule vjp = {}, jvp = {};  // one is enough
};

struct TensorType {
  Shape shape;
  DType dtype = DType::f32;
  bool operator==(const TensorType&) const = default;
};
// A dense array on the host, row-major.
struct UserArray {
  Shape shape;
  std::vector<double> values;
};

// A whole kernel, in the form of a .hk file (shaders/README.md): its `in` buffers are the arguments and its `out`
// buffers, all of one dtype, the results, in order; no inout. A type parameter is the dtype of the first argument
// declared with it.
struct UserBody {
  std::string name;
  std::string text;
  // Shapes and dtypes of the results; ShapeError or DTypeError for arguments that do not fit.
  Callable<std::vector<TensorType>(std::span<const TensorType> inputs)> outputs;
  // A value for each `const`.
  Callable<std::map<std::string, double>(std::span<const TensorType> inputs)> constants = {};
  std::map<std::string, int64_t, std::less<>> tunables = {};  // instead of the text's defaults
  Autocast autocast = Autocast::widest;                       // of each argument by itself, within an AutocastScope
  int64_t iterations = 0;                                     // as above, of one lane
  Callable<void(std::span<const UserArray> in, std::span<UserArray> out)> host = {};
  UserRule vjp = {}, jvp = {};
  // Under vmap: the results for `size` examples. Arguments that are mapped have the mapped axis in front, results must.
  // Without it vmap is a ValueError.
  Callable<std::vector<Tensor>(std::span<const Tensor> inputs, const std::vector<bool>& mapped, int64_t size)> vmap =
      {};
};

// An argument: a tensor, or a number, which becomes one of the common (or declared) dtype.
struct UserOperand {
  UserOperand(const Tensor& value, Caller where = Caller::current()) : tensor(&value), caller(where) {}
  UserOperand(double value, Caller where = Caller::current()) : number(value), caller(where) {}
  const Tensor* tensor = nullptr;
  double number = 0;
  Caller caller;
};

}  // namespace heddle
