// Builders of attention.inc.
#include <cmath>
#include <limits>

#include "heddle/core/functions/control/control.h"
#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor numbers(const Call& c, int64_t count, const Shape& shape) {
  return reshape(arange(0, static_cast<double>(count), 1, DType::i32, &c.device()), shape);
}

// (B, T, H * D) -> (B, H, T, D).
Tensor split_heads(const Call& c, const Tensor& x, int64_t heads) {
  if (heads < 1 || x.dim(2) % heads != 0) c.fail("the number of heads does not divide the last axis");
  return heddle::transpose(heddle::reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), 1, 2);
}
Tensor join_heads(const Tensor& x) {
  return heddle::reshape(heddle::transpose(x, 1, 2), {x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}

// Queries (B, H, T, D), keys (B, J, S, D) and values (B, J, S, E) with those of the past before them.
struct Operands {
  Tensor q, k, v;
  int64_t past = 0;
  int64_t queries() const { return q.dim(2); }
  int64_t keys() const { return k.dim(2); }
};

Operands operands_of(const Call& c) {
  const bool packed = c.rank(0) == 3;
  const auto heads = [&](size_t i, const char* attribute) {
    return packed ? split_heads(c, c.tensor(i), c.integer(attribute)) : c.tensor(i);
  };
  Operands o{heads(0, "q_num_heads"), heads(1, "kv_num_heads"), heads(2, "kv_num_heads")};
  if (c.given(4) != c.given(5)) c.fail("past_key and past_value are given together");
  if (c.given(4)) {
    o.past = c.shape(4)[2];
    o.k = heddle::concat({c.tensor(4), o.k}, 2);
    o.v = heddle::concat({c.tensor(5), o.v}, 2);
  }
  return o;
}

// -infinity where a key is hidden from a query by its place: causality, windows, and keys that are padding. Undefined
// where there is no such rule. i32 places: queries (T, 1) or (B, 1, T, 1), keys (S).
Tensor places_bias(const Call& c, const Operands& o) {
  const bool causal = c.integer("is_causal", 0) != 0;
  const int64_t left = c.integer("left_window_size", -1), right = c.integer("right_window_size", -1);
  const Tensor key = numbers(c, o.keys(), Shape{o.keys()});
  Tensor query = numbers(c, o.queries(), Shape{o.queries(), 1}) + static_cast<double>(o.past), seen;
  const auto also = [&](const Tensor& condition) {
    seen = seen.defined() ? heddle::logical_and(seen, condition) : condition;
  };
  if (c.given(6)) {
    const Tensor lengths = heddle::reshape(heddle::cast(c.tensor(6), DType::i32), {-1, 1, 1, 1});
    query = query + (lengths - static_cast<double>(o.queries()));
    also(key < lengths);
  }
  if (causal) also(key <= query);
  if (left >= 0) also(key >= query - static_cast<double>(left));
  if (right >= 0) also(key <= query + static_cast<double>(right));
  return seen.defined() ? heddle::where(seen, 0.0, full_like(heddle::cast(seen, DType::f32), -infinity)) : Tensor();
}

// What is added to the scores, f32 or the mask's dtype; undefined: nothing. A mask may end before the keys do.
Tensor bias_of(const Call& c, const Operands& o) {
  const Tensor places = places_bias(c, o);
  if (!c.given(3)) return places;
  Tensor mask = c.tensor(3);
  if (mask.dtype() == DType::boolean)
    mask = heddle::where(mask, 0.0, full_like(heddle::cast(mask, DType::f32), -infinity));
  if (mask.dim(-1) < o.keys() && mask.dim(-1) != 1) {
    std::vector<std::pair<int64_t, int64_t>> amounts(static_cast<size_t>(mask.rank()), {0, 0});
    amounts.back().second = o.keys() - mask.dim(-1);
    mask = heddle::pad(mask, amounts, -infinity);
  }
  return places.defined() ? mask + places : mask;
}

// The steps of the operator one by one, in f32 unless the queries are wider: `qk` is what its fourth output shows.
struct Steps {
  Tensor y, qk;
};
Steps by_steps(const Call& c, const Operands& o, const Tensor& bias, double scale) {
  const DType wide = promote(o.q.dtype(), DType::f32);
  const int64_t shared = o.q.dim(1) / o.k.dim(1), mode = c.integer("qk_matmul_output_mode", 0);
  const Tensor k = repeat_interleave(heddle::cast(o.k, wide), shared, 1);
  const Tensor v = repeat_interleave(heddle::cast(o.v, wide), shared, 1);
  std::vector<Tensor> shown;  // by mode
  Tensor scores = heddle::matmul(heddle::cast(o.q, wide) * scale, heddle::transpose(k));
  shown.push_back(scores);
  const double cap = c.real("softcap", 0);
  if (cap != 0) scores = heddle::tanh(scores / cap) * cap;
  shown.push_back(scores);
  if (bias.defined()) scores = scores + heddle::cast(bias, wide);
  shown.push_back(scores);
  const Tensor sees = heddle::gt(heddle::max(scores, {-1}, true), -infinity);
  const Tensor weights = heddle::where(sees, heddle::softmax(heddle::where(sees, scores, zeros_like(scores)), -1), 0.0);
  shown.push_back(weights);
  return {heddle::cast(heddle::matmul(weights, v), o.q.dtype()),
          heddle::cast(shown[static_cast<size_t>(mode)], o.q.dtype())};
}

// (B, T, H, D): the first `size` elements of each head turned by the angles whose cosines and sines are (B, T, 1, size
// / 2).
Tensor rotated(const Tensor& x, const Tensor& cosines, const Tensor& sines, int64_t size, bool interleaved) {
  const int64_t half = size / 2;
  const Tensor turned = narrow(x, 3, 0, size);
  const Shape shape = turned.shape();
  const Tensor pairs = heddle::reshape(turned, interleaved ? Shape{shape[0], shape[1], shape[2], half, 2}
                                                           : Shape{shape[0], shape[1], shape[2], 2, half});
  const int axis = interleaved ? 4 : 3;
  const Tensor a = select(pairs, axis, 0), b = select(pairs, axis, 1);
  const Tensor both = stack({a * cosines - b * sines, a * sines + b * cosines}, axis);
  const Tensor result = heddle::reshape(both, shape);
  return size == x.dim(3) ? result : heddle::concat({result, narrow(x, 3, size, x.dim(3) - size)}, 3);
}

}  // namespace

void attention(Call& c) {
  const Operands o = operands_of(c);
  if (o.q.dim(1) % o.k.dim(1) != 0) c.fail("the heads of the queries are no multiple of those of the keys");
  const Tensor bias = bias_of(c, o);
  const double scale = c.real("scale", 1 / std::sqrt(static_cast<double>(o.q.dim(3))));
  Tensor y, qk;
  if (c.wanted(3) || c.real("softcap", 0) != 0) {
    const Steps steps = by_steps(c, o, bias, scale);
    y = steps.y;
    qk = steps.qk;
  } else {
    AttentionOptions options;
    options.bias = bias;
    options.scale = scale;
    y = scaled_dot_product_attention(o.q, o.k, o.v, options);
  }
  c.out(c.rank(0) == 3 ? join_heads(y) : y, c.type(0));
  c.out(o.k, c.type(1));
  c.out(o.v, c.type(2));
  if (qk.defined()) c.out(qk, c.type(0));
}

void rotary_embedding(Call& c) {
  const bool packed = c.rank(0) == 3;
  const Tensor given = packed ? split_heads(c, c.tensor(0), c.integer("num_heads")) : c.tensor(0);
  const Tensor x = heddle::transpose(given, 1, 2);  // (B, T, H, D)
  int64_t size = c.integer("rotary_embedding_dim", 0);
  if (size == 0) size = x.dim(3);
  if (size % 2 != 0 || size > x.dim(3)) c.fail("rotary_embedding_dim is odd or larger than a head");
  const auto angles = [&](size_t i) {
    const Tensor cache = c.given(3) ? take(c.tensor(i), c.tensor(3)) : c.tensor(i);
    if (cache.rank() != 3 || cache.dim(-1) != size / 2) c.fail("the cache's last axis is not half of what is turned");
    return heddle::unsqueeze(cache, 2);
  };
  const Tensor y = heddle::transpose(rotated(x, angles(1), angles(2), size, c.integer("interleaved", 0) != 0), 1, 2);
  c.out(packed ? join_heads(y) : y, c.type(0));
}

// Depthwise, of the last k - 1 places and these: (B, C, k - 1 + T).
void causal_conv(Call& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1);
  const int64_t before = weight.dim(2) - 1, channels = x.dim(1);
  const Tensor past = c.given(3) ? c.tensor(3) : zeros(Shape{x.dim(0), channels, before}, x.dtype(), &c.device());
  const Tensor all = before == 0 ? x : heddle::concat({past, x}, 2);
  Tensor y = zeros(x.shape(), promote(x.dtype(), DType::f32), &c.device());
  for (int64_t i = 0; i <= before; ++i)
    y = y + narrow(all, 2, i, x.dim(2)) * heddle::reshape(select(weight, 2, i), {channels, 1});
  if (c.given(2)) y = y + heddle::reshape(c.tensor(2), {channels, 1});
  if (c.text("activation", "none") != "none") y = silu(y);
  c.out(heddle::cast(y, x.dtype()), c.type(0));
  c.out(narrow(all, 2, x.dim(2), before), c.type(0));
}

namespace {

// (B, T, H * D) -> (T, B, H, D), the axis of steps first, in f32.
Tensor by_step(const Call& c, size_t i, int64_t heads) {
  const Tensor x = c.tensor(i);
  if (x.dim(2) % heads != 0) c.fail("the number of heads does not divide the last axis");
  const Tensor split = heddle::reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads});
  return heddle::cast(permute(split, {1, 0, 2, 3}), promote(x.dtype(), DType::f32));
}

}  // namespace

// S (B, H, K, V) and, at each step, S = g S + b k (v - S^T k)^T with what the rule has of it; o = scale S^T q.
void linear_attention(Call& c) {
  const int64_t heads = c.integer("kv_num_heads"), query_heads = c.integer("q_num_heads");
  const std::string rule = c.text("update_rule", "gated_delta");
  const bool gated = rule.starts_with("gated"), delta = rule.ends_with("delta");
  if (heads < 1 || query_heads % heads != 0) c.fail("q_num_heads is no multiple of kv_num_heads");
  if (gated && !c.given(4)) c.fail("the rule needs decay");
  if (delta && !c.given(5)) c.fail("the rule needs beta");
  const Tensor q = by_step(c, 0, query_heads), k = by_step(c, 1, heads), v = by_step(c, 2, heads);
  std::vector<Tensor> xs{q, k, v};
  if (gated) xs.push_back(heddle::exp(by_step(c, 4, heads)));
  if (delta) xs.push_back(by_step(c, 5, c.shape(5)[2] == 1 ? 1 : heads));
  const double given = c.real("scale", 0), scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(q.dim(3)));
  const Tensor zero = zeros(Shape{q.dim(1), heads, k.dim(3), v.dim(3)}, q.dtype(), &c.device());
  const auto step = [&](const std::vector<Tensor>& states, const std::vector<Tensor>& x) {
    const Tensor key = heddle::unsqueeze(x[1], -1);  // (B, H, K, 1)
    Tensor state = states[0], value = heddle::unsqueeze(x[2], -2);
    if (gated) state = state * heddle::unsqueeze(x[3], -1);
    if (delta) value = (value - heddle::sum(state * key, {-2}, true)) * heddle::unsqueeze(x.back(), -1);
    state = state + key * value;
    const Tensor query = heddle::unsqueeze(x[0] * scale, -1);  // (B, H of queries, K, 1)
    return Scanned{{state}, {heddle::sum(repeat_interleave(state, query_heads / heads, 1) * query, {-2})}};
  };
  const Scanned result = heddle::scan(step, {c.given(3) ? heddle::cast(c.tensor(3), q.dtype()) : zero}, xs);
  const Tensor y = permute(result.ys[0], {1, 0, 2, 3});  // (B, T, H, V)
  c.out(heddle::cast(heddle::reshape(y, {y.dim(0), y.dim(1), y.dim(2) * y.dim(3)}), c.tensor(0).dtype()), c.type(0));
  c.out(heddle::cast(result.carry[0], c.given(3) ? c.tensor(3).dtype() : c.tensor(0).dtype()),
        c.given(3) ? c.type(3) : c.type(0));
}

}  // namespace heddle::onnx::build
