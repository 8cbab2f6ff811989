#include "heddle/nn/mixture_of_experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

Tensor weights(int64_t experts, int64_t out, int64_t in, const MixtureOptions& o) {
  Tensor made = zeros(parameter_shape("MixtureOfExperts", {experts, out, in}), DType::f32, o.device);
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  init::uniform(made, -bound, bound, o.generator);
  return made;
}

Linear make_router(int64_t width, int64_t hidden, const MixtureOptions& o) {
  check_sizes("MixtureOfExperts", {{"width", width}, {"hidden", hidden}});
  return Linear(width, o.experts, {.bias = false, .device = o.device, .generator = o.generator});
}

}  // namespace

const MixtureOptions& checked_mixture(const char* who, const MixtureOptions& o) {
  checked_size(who, "experts", o.experts, most_rows);
  if (o.top_k < 1 || o.top_k > o.experts)
    throw ValueError(
        fmt::format("[{}] top_k is {}; it must be 1 to {}, the number of experts", who, o.top_k, o.experts));
  if (!(o.capacity_factor >= 0))
    throw ValueError(fmt::format("[{}] capacity_factor is {}; it must be 0 or above", who, o.capacity_factor));
  return o;
}

MixtureOfExperts::MixtureOfExperts(int64_t width, int64_t hidden, const MixtureOptions& o)
    : Module("MixtureOfExperts"),
      router(make_router(width, hidden, checked_mixture("MixtureOfExperts", o))),
      options_(o) {
  add("router", router);
  up = add_parameter("up", weights(o.experts, hidden, width, o));
  down = add_parameter("down", weights(o.experts, width, hidden, o));
}

MixtureOfExperts::MixtureOfExperts(const char* kind, const MixtureOptions& o, const Linear& routes, const Tensor& first,
                                   const Tensor& second)
    : Module(kind), router(routes), options_(o) {
  add("router", router);
  up = add_parameter("up", first);
  down = add_parameter("down", second);
}

int64_t MixtureOfExperts::capacity(int64_t tokens) const {
  if (!training()) return tokens;
  const double even = static_cast<double>(tokens * options_.top_k) / static_cast<double>(options_.experts);
  const double wanted = std::ceil(options_.capacity_factor * even);
  return wanted < static_cast<double>(tokens) ? static_cast<int64_t>(wanted) : tokens;  // an expert has a token once
}

void MixtureOfExperts::check_input(const Tensor& x) const {
  const int64_t width = router.weight.dim(1);
  if (x.rank() < 1 || x.dim(-1) != width || !is_float(x.dtype())) {
    throw ShapeError(
        fmt::format("[{}] input {} {}; expected floats (..., {})", kind(), x.shape().str(), name_of(x.dtype()), width));
  }
}

Tensor MixtureOfExperts::forward(const Tensor& x) {
  check_input(x);
  const int64_t width = x.dim(-1), tokens = x.numel() / width;
  const RoutingSizes sizes{options_.experts, options_.top_k, capacity(tokens)};
  if (tokens == 0) return zeros_like(x);
  const Tensor rows = reshape(x, {tokens, width});
  const Tensor logits = [&] {
    const AutocastScope off = AutocastScope::off();
    return router(cast(rows, promote(rows.dtype(), DType::f32)));
  }();
  const Routing routing(logits, sizes);
  if (RoutingScope::active()) RoutingScope::note(findings(routing.sums(), tokens, sizes));
  if (sizes.capacity == 0) return zeros_like(x);
  return reshape(routing.combine(computed(routing.dispatch(rows))), x.shape());
}

Tensor MixtureOfExperts::through(const Tensor& batches, const Tensor& first, const Tensor& second) const {
  const Tensor inner = activate(matmul(batches, transpose(first, -2, -1)), options_.activation);
  return matmul(inner, transpose(second, -2, -1));
}

RoutingFindings MixtureOfExperts::findings(const Tensor& sums, int64_t tokens, const RoutingSizes& sizes) const {
  return routing_findings(sums, tokens, sizes);
}

}  // namespace heddle::nn
