// Loops and branches: small, for finite differences to second order, and for the comparison of devices.
#include "heddle/core/functions/control/control.h"
#include "heddle/core/graph/checkpoint.h"
#include "tests/autograd/cases.h"

namespace heddle::tests {
namespace {

// h = tanh(x W + h U); of the last state and all states one tensor.
Tensor recurrent(Inputs in, const ScanOptions& options) {
  const Scanned all = scan(
      [&](const std::vector<Tensor>& h, const std::vector<Tensor>& x) {
        const Tensor next = tanh(matmul(x[0], in[1]) + matmul(h[0], in[2]));
        return Scanned{{next}, {sum(next * h[0], {1})}};
      },
      {in[3]}, {in[0]}, options);
  return sum(all.carry[0], {1}) + sum(all.ys[0] * 0.5, {0});
}

// Carries that change places, one that stays, one of integers; a slice that is a result as it is; a result that does
// not vary.
Tensor odd_carries(Inputs in) {
  const Tensor count = zeros({}, DType::i32, &in[0].device());
  const Scanned all = scan(
      [&](const std::vector<Tensor>& c, const std::vector<Tensor>& x) {
        return Scanned{{c[1], c[0] * x[0] + c[2], c[2], c[3] + 1.0}, {x[0], c[0], in[1] * 2.0}};
      },
      {in[1], in[2], in[1] * in[2], count}, {in[0]});
  return all.carry[0] + all.carry[1] * all.carry[2] + cast(all.carry[3], in[0].dtype()) +
         sum(all.ys[0] * all.ys[1] + all.ys[2], {0});
}

// Weights that a body captures: one that is used twice and turned, one for all examples.
Tensor captured_weights(Inputs in) {
  const Scanned all = scan(
      [&](const std::vector<Tensor>& c, const std::vector<Tensor>& x) {
        const Tensor& h = c[0];
        const Tensor twice = matmul(h, in[2]) - matmul(sin(h), transpose(in[2])) * 0.5;
        const Tensor shared = squeeze(matmul(unsqueeze(x[0], 1), in[1]), 1);  // (N, 1, in) by one weight
        return Scanned{{tanh(matmul(x[0], in[1]) + twice) * 0.5 + shared * 0.1}, {}};
      },
      {in[3]}, {in[0]});
  return all.carry[0];
}

// A weight for each example, a vector that is multiplied and added, and a scale, which no product reads.
Tensor captured_rows(Inputs in) {
  const Scanned all = scan(
      [&](const std::vector<Tensor>& c, const std::vector<Tensor>& x) {
        const Tensor each = squeeze(matmul(unsqueeze(c[0], 1), in[1]), 1);
        const Tensor next = tanh(each + in[2] + c[0] * in[3] + unsqueeze(matmul(x[0], in[2]), 1));
        return Scanned{{next * 0.5 + x[0]}, {}};
      },
      {squeeze(slice(in[0], 0, {0, 1}), 0)}, {in[0]});
  return all.carry[0];
}

Tensor nested(Inputs in) {
  const Scanned all = scan(
      [&](const std::vector<Tensor>& outer, const std::vector<Tensor>& x) {
        const Scanned inner = scan(
            [&](const std::vector<Tensor>& c, const std::vector<Tensor>& y) {
              const Tensor next = sin(c[0] + y[0] * outer[0]);
              return Scanned{{next}, {next * x[0]}};
            },
            {outer[0]}, {in[1]});
        return Scanned{{inner.carry[0] * x[0]}, {sum(inner.ys[0], {0})}};
      },
      {in[2]}, {in[0]}, {{}, true, false});
  return all.carry[0] + sum(all.ys[0], {0});
}

Tensor checkpointed_inside(Inputs in) {
  const Scanned all = scan(
      [&](const std::vector<Tensor>& c, const std::vector<Tensor>& x) {
        const Tensor next = checkpoint([&](const Tensor& h) { return tanh(exp(h * 0.3) * x[0] + in[1]); }, c[0]);
        return Scanned{{next}, {}};
      },
      {in[1]}, {in[0]});
  return all.carry[0];
}

Tensor branch(Inputs in) {
  const Tensor larger = sum(in[0]) > -100.0;
  const auto sine = [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{sin(x[0]) * in[1]}; };
  const auto square_of = [&](const std::vector<Tensor>& x) { return std::vector<Tensor>{square(x[0]) + in[1]}; };
  return cond(larger, sine, square_of, {in[0]})[0] + cond(!larger, sine, square_of, {in[0]})[0];
}

// Doubles until the sum of the first input's square passes 50.
Tensor bounded_while(Inputs in) {
  const WhileResult result = while_loop(
      [](const std::vector<Tensor>& c) { return sum(square(c[0])) < 50.0; },
      [&](const std::vector<Tensor>& c) { return std::vector<Tensor>{c[0] * 1.7 + sin(in[1])}; }, {in[0]}, {8, 16});
  return result.carry[0];
}

}  // namespace

std::vector<GradientCase> control_cases() {
  std::vector<GradientCase> t;
  const std::vector<Shape> shapes{{4, 2, 3}, {3, 5}, {5, 5}, {2, 5}};
  t.push_back({"scan", shapes, [](Inputs in) { return recurrent(in, {}); }});
  t.push_back({"scan reverse", shapes, [](Inputs in) { return recurrent(in, {{}, true, false}); }});
  t.push_back({"scan checkpointed", shapes, [](Inputs in) { return recurrent(in, {{}, false, true}); }});
  t.push_back({"scan of one", {{1, 2, 3}, {3, 5}, {5, 5}, {2, 5}}, [](Inputs in) { return recurrent(in, {}); }});
  t.push_back({"scan of odd carries", {{3, 2}, {2}, {2}}, odd_carries});
  t.push_back({"scan of captured weights", {{3, 2, 4}, {4, 3}, {3, 3}, {2, 3}}, captured_weights});
  t.push_back({"scan of captured rows", {{3, 2, 3}, {2, 3, 3}, {3}, {3}}, captured_rows});
  t.push_back({"nested scan", {{3, 2}, {2, 2}, {2}}, nested});
  t.push_back({"checkpoint in a scan", {{3, 2}, {2}}, checkpointed_inside});
  t.push_back({"cond", {{2, 3}, {2, 3}}, branch});
  t.push_back({"while_loop", {{3}, {3}}, bounded_while});
  return t;
}

}  // namespace heddle::tests
