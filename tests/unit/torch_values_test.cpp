// The functions on the reference device against what PyTorch answered (torch_values.json, made by torch_values.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>

#include "checks/op_cases.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::tests {
namespace {

using namespace checks;

using In = std::span<const Tensor>;

double number(const nlohmann::json& v) {
  if (!v.is_string()) return v.get<double>();
  return v == "nan" ? NAN : v == "inf" ? INFINITY : -INFINITY;
}

std::vector<double> numbers(const nlohmann::json& array) {
  std::vector<double> result;
  for (const auto& v : array["data"]) result.push_back(number(v));
  return result;
}

Tensor tensor_of(const nlohmann::json& array, DeviceContext& device) {
  const Shape shape(array["shape"].get<std::vector<int64_t>>());
  const DType t = parse_dtype(array["dtype"].get<std::string>());
  const std::vector<double> values = numbers(array);
  std::vector<uint8_t> bytes(values.size() * size_of(t));
  for (size_t i = 0; i < values.size(); ++i) store_element(bytes.data(), t, i, values[i]);
  return Tensor::from_bytes(bytes.data(), values.size(), t, shape, &device);
}

// "cross_entropy sum" -> the reduction of its last word.
template <Tensor (*f)(const Tensor&, const Tensor&, Reduction, Caller)>
void add_loss(std::map<std::string, std::function<Tensor(In)>>& calls, const std::string& name) {
  calls[name + " mean"] = [](In t) { return f(t[0], t[1], Reduction::mean, Caller::current()); };
  calls[name + " sum"] = [](In t) { return f(t[0], t[1], Reduction::sum, Caller::current()); };
  calls[name + " none"] = [](In t) { return f(t[0], t[1], Reduction::none, Caller::current()); };
}

Tensor huber(const Tensor& x, const Tensor& y, Reduction r, Caller caller) { return huber_loss(x, y, 0.7, r, caller); }

std::map<std::string, std::function<Tensor(In)>> function_calls(DeviceContext& device) {
  std::map<std::string, std::function<Tensor(In)>> calls{
      {"sum (0, 2)",
       [](In t) {
         return sum(t[0], {0, 2});
       }},
      {"sum all", [](In t) { return sum(t[0]); }},
      {"sum 1 keepdim", [](In t) { return sum(t[0], {1}, true); }},
      {"mean (0, 2)",
       [](In t) {
         return mean(t[0], {2, 0});
       }},
      {"mean all", [](In t) { return mean(t[0]); }},
      {"mean 1 keepdim", [](In t) { return mean(t[0], {-2}, true); }},
      {"max (0, 2)",
       [](In t) {
         return max(t[0], {0, 2});
       }},
      {"max 1", [](In t) { return max(t[0], {1}); }},
      {"min 1", [](In t) { return min(t[0], {1}); }},
      {"prod 1", [](In t) { return prod(t[0], {1}); }},
      {"argmax 1", [](In t) { return argmax(t[0], 1); }},
      {"argmax 1 of nan", [](In t) { return argmax(t[0], 1); }},
      {"argmin all", [](In t) { return argmin(t[0]); }},
      {"var (0, 2)",
       [](In t) {
         return var(t[0], {0, 2});
       }},
      {"var 1 correction 0", [](In t) { return var(t[0], {1}, false, 0); }},
      {"logsumexp (0, 2)",
       [](In t) {
         return logsumexp(t[0], {0, 2});
       }},
      {"logsumexp 1", [](In t) { return logsumexp(t[0], {1}); }},
      {"softmax 1", [](In t) { return softmax(t[0], 1); }},
      {"softmax 0", [](In t) { return softmax(t[0], 0); }},
      {"log_softmax 1", [](In t) { return log_softmax(t[0], 1); }},
      {"permute 2 0 1",
       [](In t) {
         return permute(t[0], {2, 0, 1});
       }},
      {"transpose", [](In t) { return transpose(t[0]); }},
      {"flip 0 2",
       [](In t) {
         return flip(t[0], {0, 2});
       }},
      {"slice",
       [](In t) {
         const Slice ranges[] = {{1, {}, 1}, {{}, {}, 2}, {1, -1, 1}};
         return slice(t[0], ranges);
       }},
      {"pad",
       [](In t) {
         return pad(t[0], {{1, 0}, {0, 2}, {3, 1}}, -1);
       }},
      {"concat 1",
       [](In t) {
         return concat({t[0], t[1]}, 1);
       }},
      {"take 1", [](In t) { return take(t[0], t[1], 1); }},
      {"gather 1", [](In t) { return gather(t[0], 1, t[1]); }},
      {"scatter_add 1", [](In t) { return scatter_add(t[0], 1, t[1], t[2]); }},
      {"index_add", [](In t) { return index_add(t[0], t[1], t[2]); }},
      {"one_hot", [](In t) { return one_hot(t[0], 4, DType::f64); }},
      {"matmul", [](In t) { return matmul(t[0], t[1]); }},
      {"where", [](In t) { return where(t[0], t[1], t[2]); }},
      {"clamp", [](In t) { return clamp(t[0], -1, 2); }},
      {"arange", [&device](In) { return arange(-2, 3, 0.75, DType::f64, &device); }},
      {"linspace", [&device](In) { return linspace(-1, 2, 9, DType::f64, &device); }},
      {"eye", [&device](In) { return eye(3, 4, DType::f64, &device); }},
  };
  add_loss<&cross_entropy>(calls, "cross_entropy");
  add_loss<&nll_loss>(calls, "nll_loss");
  add_loss<&mse_loss>(calls, "mse_loss");
  add_loss<&l1_loss>(calls, "l1_loss");
  add_loss<&bce_with_logits>(calls, "bce_with_logits");
  add_loss<&huber>(calls, "huber_loss");
  add_loss<&kl_div>(calls, "kl_div");
  return calls;
}

TEST(TorchValues, EveryStoredCallAgrees) {
  DeviceContext& reference = device("reference:0");
  const auto calls = function_calls(reference);
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/unit/torch_values.json");
  const nlohmann::json stored = nlohmann::json::parse(file);
  int compared = 0;
  for (const auto& row : stored["rows"]) {
    const std::string name = row["name"];
    SCOPED_TRACE(name + " " + row["inputs"].dump().substr(0, 200));
    std::vector<Tensor> inputs;
    for (const auto& array : row["inputs"]) inputs.push_back(tensor_of(array, reference));
    const OpDef* op = find_op(name);
    const auto call = calls.find(name);
    ASSERT_TRUE(call != calls.end() || (op != nullptr && !op->dialect.empty()));
    const Tensor result = call != calls.end() ? call->second(inputs) : apply_row(*op, inputs);
    const nlohmann::json& expected = row["expected"];
    EXPECT_EQ(result.shape().str(), Shape(expected["shape"].get<std::vector<int64_t>>()).str());
    EXPECT_EQ(name_of(result.dtype()), expected["dtype"].get<std::string>());
    const Tolerance close = result.dtype() == DType::f32 ? Tolerance{1e-7, 0} : Tolerance{1e-12, 1e-14};
    EXPECT_EQ(difference(result.to_doubles(), numbers(expected), close), "");
    ++compared;
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace heddle::tests
