// References of the attention rows, query by query in double precision, from their definitions in attention.h.
#include <cmath>
#include <limits>

#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/graph/philox.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle::reference {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class Reader {
 public:
  Reader(const Node& node, Inputs in) : p(attention_problem(node)), in_(in), t_(node.inputs[0]->dtype) {}

  // Element (a, b, c, d) of an input with four dimensions, those of size 1 repeated.
  double at(int input, int64_t a, int64_t b, int64_t c, int64_t d) const {
    const HostArray& x = array(input);
    int64_t index = 0;
    const int64_t position[] = {a, b, c, d};
    for (int axis = 0; axis < 4; ++axis) index = index * x.shape[axis] + (x.shape[axis] == 1 ? 0 : position[axis]);
    return x.floats[static_cast<size_t>(index)];
  }
  double dot(int x, int64_t bx, int64_t hx, int64_t m, int y, int64_t hy, int64_t n, int64_t size) const {
    double sum = 0;
    for (int64_t d = 0; d < size; ++d) sum += at(x, bx, hx, m, d) * at(y, bx, hy, n, d);
    return sum;
  }
  bool hidden(int64_t b, int64_t m, int64_t n) const {
    if (p.causal && n - m > p.keys - p.queries) return true;
    if (p.mask >= 0 && !array(p.mask).ints[static_cast<size_t>(b * p.keys + n)]) return true;
    return p.lengths >= 0 && n >= array(p.lengths).ints[static_cast<size_t>(b)];
  }
  double score(int64_t b, int64_t h, int64_t m, int64_t n) const {
    const double s = p.scale * dot(0, b, h, m, 1, h / p.group(), n, p.size);
    return p.bias < 0 ? s : s + at(p.bias, b, h, m, n);
  }
  // Dropout's factor.
  double kept(int64_t b, int64_t h, int64_t m, int64_t n) const {
    if (p.key < 0) return 1;
    const HostArray& key = array(p.key);
    const auto word = [&](size_t i) { return static_cast<uint32_t>(key.ints[i]); };
    const int64_t row = (b * p.heads + h) * p.queries + m;
    const float u =
        philox_uniform({word(0), word(1), word(2), word(3)}, static_cast<uint64_t>(row * ((p.keys + 3) / 4 * 4) + n));
    return u >= static_cast<float>(p.drop) ? 1 / (1 - p.drop) : 0;
  }
  double logarithm(int64_t b, int64_t h, int64_t m) const {
    const HostArray& x = array(p.stats);
    const size_t first = static_cast<size_t>(((b * p.heads + h) * p.queries + m) * p.parts);
    if (p.parts == 1) return x.floats[first];
    return 64 * (x.floats[first] + x.floats[first + 1] + x.floats[first + 2]);
  }
  double delta(int64_t b, int64_t h, int64_t m) const {
    return array(p.delta).floats[static_cast<size_t>((b * p.queries + m) * p.heads + h)];
  }
  DType dtype() const { return t_; }

  AttentionProblem p;

 private:
  const HostArray& array(int input) const { return *in_[static_cast<size_t>(input)]; }
  Inputs in_;
  DType t_;
};

void store_logarithm(HostArray& out, size_t first, double value, const Reader& r) {
  if (r.p.parts == 1) {
    out.floats[first] = rounded(value, out.dtype);
    return;
  }
  double rest = value / 64;
  for (size_t i = 0; i < 3; ++i) {
    out.floats[first + i] = rounded(rest, out.dtype);
    rest = std::isinf(rest) ? 0 : rest - out.floats[first + i];
  }
}

void attend(const Reader& r, int64_t b, int64_t h, int64_t m, HostArray& out) {
  const AttentionProblem& p = r.p;
  std::vector<double> weights(static_cast<size_t>(p.keys), -infinity);
  double largest = -infinity, total = 0;
  for (int64_t n = 0; n < p.keys; ++n) {
    double& w = weights[static_cast<size_t>(n)];
    if (!r.hidden(b, m, n)) w = r.score(b, h, m, n);
    if (w > largest) largest = w;
  }
  const double shift = largest == -infinity ? 0 : largest;
  for (double& w : weights) total += w = std::exp(w - shift);
  for (int64_t e = 0; e < p.value_size; ++e) {
    double sum = 0;
    for (int64_t n = 0; n < p.keys; ++n)
      sum += weights[static_cast<size_t>(n)] * r.kept(b, h, m, n) * r.at(2, b, h / p.group(), n, e);
    out.floats[static_cast<size_t>(((b * p.queries + m) * p.heads + h) * p.value_size + e)] =
        rounded(total == 0 ? 0 : sum / total, out.dtype);
  }
  const int64_t first = p.results() + ((b * p.heads + h) * p.queries + m) * p.parts;
  store_logarithm(out, static_cast<size_t>(first), total == 0 ? infinity : largest + std::log(total), r);
}

// Adds what one score contributes to the gradient that the node is.
void add_gradients(const Node& node, const Reader& r, int64_t b, int64_t h, int64_t m, int64_t n, HostArray& out) {
  const AttentionProblem& p = r.p;
  const int64_t j = h / p.group();
  const double weight = std::exp(r.score(b, h, m, n) - r.logarithm(b, h, m));
  const double kept = r.kept(b, h, m, n);
  const double slope = weight * (kept * r.dot(p.cotangent, b, h, m, 2, j, n, p.value_size) - r.delta(b, h, m));
  const auto add = [&](int64_t index, double x) { out.floats[static_cast<size_t>(index)] += x; };
  if (node.op == &ops::attention_query_gradient_op) {
    for (int64_t d = 0; d < p.size; ++d)
      add(((b * p.queries + m) * p.heads + h) * p.size + d, p.scale * slope * r.at(1, b, j, n, d));
  } else if (node.op == &ops::attention_key_gradient_op) {
    const int64_t row = (b * p.keys + n) * p.key_heads + j, values = p.batch * p.keys * p.key_heads * p.size;
    for (int64_t d = 0; d < p.size; ++d) add(row * p.size + d, p.scale * slope * r.at(0, b, h, m, d));
    for (int64_t e = 0; e < p.value_size; ++e)
      add(values + row * p.value_size + e, weight * kept * r.at(p.cotangent, b, h, m, e));
  } else {
    const Shape& s = node.shape;
    const auto at = [&](int axis, int64_t i) { return s[axis] == 1 ? 0 : i; };
    add(((at(0, b) * s[1] + at(1, h)) * s[2] + at(2, m)) * p.keys + n, slope);
  }
}

template <class F>
void for_each_query(const AttentionProblem& p, F&& f) {
  for (int64_t b = 0; b < p.batch; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t m = 0; m < p.queries; ++m) f(b, h, m);
    }
  }
}

}  // namespace

HostArray attention(const Node& node, Inputs in) {
  const Reader r(node, in);
  HostArray out = blank(node.shape, node.dtype);
  for_each_query(r.p, [&](int64_t b, int64_t h, int64_t m) { attend(r, b, h, m, out); });
  return out;
}

HostArray attention_gradient(const Node& node, Inputs in) {
  const Reader r(node, in);
  HostArray out = blank(node.shape, node.dtype);
  for_each_query(r.p, [&](int64_t b, int64_t h, int64_t m) {
    for (int64_t n = 0; n < r.p.keys; ++n) {
      if (!r.hidden(b, m, n)) add_gradients(node, r, b, h, m, n, out);
    }
  });
  for (double& x : out.floats) x = rounded(x, node.dtype);
  return out;
}

}  // namespace heddle::reference
