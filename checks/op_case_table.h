// The table that the lists of op cases (op_cases_functions.cpp, op_cases_networks.cpp) are written into, in few words.
#pragma once

#include <fmt/format.h>

#include <functional>

#include "checks/op_cases.h"

namespace heddle::checks {

using In = std::span<const Tensor>;

// Inputs in few words.
inline InputSpec x(const Shape& shape, DType t = DType::f32, Layout layout = Layout::dense) {
  return {shape, t, -2, 2, layout, false};
}
inline InputSpec range(const Shape& shape, double low, double high, DType t = DType::f32) {
  return {shape, t, low, high, Layout::dense, false};
}
inline InputSpec whole(const Shape& shape, double low, double high, DType t = DType::i32,
                       Layout layout = Layout::dense) {
  return {shape, t, low, high, layout, false};
}
inline InputSpec special(const Shape& shape) { return {shape, DType::f32, -2, 2, Layout::dense, true}; }

class Table {
 public:
  explicit Table(std::vector<OpCase>& cases) : cases_(cases) {}

  // `form` tells cases of one function with the same inputs apart.
  OpCase& add(std::string_view op, std::string_view form, std::vector<InputSpec> inputs, std::function<Tensor(In)> f) {
    return add_on(op, form, std::move(inputs), [f = std::move(f)](DeviceContext&, In in) { return f(in); });
  }

  OpCase& add_on(std::string_view op, std::string_view form, std::vector<InputSpec> inputs, Builder build) {
    OpCase c;
    c.op = op;
    c.name = fmt::format("{}{}{}", op, form.empty() ? "" : " ", form);
    for (const InputSpec& i : inputs)
      c.name += fmt::format(" {} {}{}", name_of(i.dtype), i.shape.str(), layouts[static_cast<size_t>(i.layout)]);
    c.inputs = std::move(inputs);
    c.build = std::move(build);
    cases_.push_back(std::move(c));
    return cases_.back();
  }

 private:
  static constexpr std::string_view layouts[] = {"", " offset", " strided", " flipped", " transposed", " expanded"};
  std::vector<OpCase>& cases_;
};

// The lists of op_cases_networks.cpp.
void add_matmul(Table& table);
void add_conv(Table& table);
void add_random(Table& table);
void add_attention(Table& table);
void add_losses(Table& table);

}  // namespace heddle::checks
