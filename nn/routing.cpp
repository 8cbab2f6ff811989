#include "heddle/nn/routing.h"

#include <tuple>
#include <utility>

#include "heddle/autograd/custom.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::nn {
namespace {

thread_local RoutingScope* scope_of_thread = nullptr;

// Rows of `rows` by number; 0 where it is below 0.
Tensor picked(const Tensor& rows, const Tensor& numbers) {
  const Tensor there = numbers >= 0;
  return where(unsqueeze(there, 1), take(rows, where(there, numbers, 0), 0), 0);
}

using Maps = std::tuple<Tensor, Tensor>;

// picked(rows, there), where `back` is the inverse of `there`: so the gradient is picked rows as well, and no sum.
Tensor moved(const Tensor& rows, const Tensor& there, const Tensor& back) {
  const auto move = custom_vjp(
      [](const Tensor& x, const Tensor& to, const Tensor&) { return picked(x, to); },
      [](const Tensor& x, const Tensor& to, const Tensor& from) { return std::pair(picked(x, to), Maps(to, from)); },
      [](const Maps& maps, const Tensor& g) { return moved(g, std::get<1>(maps), std::get<0>(maps)); });
  return move(rows, there, back);
}

// Rows of tokens at the places of their picks, of which each token has `picks`, side by side in the order of tokens.
Tensor spread(const Tensor& tokens, const Tensor& sources, const Tensor& slots, int64_t picks) {
  const auto owners = [picks](const Tensor& from) { return where(from >= 0, floor_divide(from, double(picks)), -1); };
  const auto move =
      custom_vjp([owners](const Tensor& x, const Tensor& from, const Tensor&) { return picked(x, owners(from)); },
                 [owners](const Tensor& x, const Tensor& from, const Tensor& to) {
                   return std::pair(picked(x, owners(from)), Maps(from, to));
                 },
                 [picks](const Maps& maps, const Tensor& g) {
                   const Tensor each = moved(g, std::get<1>(maps), std::get<0>(maps));
                   return sum(reshape(each, {each.dim(0) / picks, picks, each.dim(1)}), {1});
                 });
  return move(tokens, sources, slots);
}

}  // namespace

// Picks in the order of tokens; how many went to an expert so far says a pick's place there, and where that count first
// reaches c is the pick of place c - 1.
Routing::Routing(const Tensor& logits, const RoutingSizes& sizes) : tokens_(logits.dim(0)), sizes_(sizes) {
  const int64_t experts = sizes.experts, capacity = sizes.capacity, all = tokens_ * sizes.picks;
  DeviceContext* device = &logits.device();
  const Ordered best = topk(logits, sizes.picks);
  const Tensor shares = softmax(logits);
  weights_ = sizes.picks == 1 ? gather(shares, 1, best.indices) : softmax(best.values);
  const Tensor chosen = reshape(cast(best.indices, DType::i32), {1, all});
  const Tensor number = reshape(arange(0, static_cast<double>(experts), 1, DType::i32, device), {experts, 1});
  const Tensor so_far = cumsum(number == chosen, 1);  // (experts, all)
  const Tensor place = gather(so_far, 0, chosen) - 1;
  const Tensor slot = where(place < static_cast<double>(capacity), chosen * static_cast<double>(capacity) + place, -1);
  slots_ = cast(reshape(slot, {all}), DType::i32);
  const Tensor counts = arange(1, static_cast<double>(capacity) + 1, 1, so_far.dtype(), device);
  const Tensor first = searchsorted(so_far, expand(reshape(counts, {1, capacity}), {experts, capacity}));
  const Tensor source = where(first < static_cast<double>(all), first, -1);
  sources_ = cast(reshape(source, {experts * capacity}), DType::i32);
  const Tensor taken = reshape(slice(so_far, 1, {.start = all - 1, .stop = all}), {experts});
  sums_ = concat({cast(taken, logits.dtype()), sum(shares, {0}), reshape(sum(square(logsumexp(logits, {1}))), {1}),
                  reshape(sum(cast(slots_ < 0, logits.dtype())), {1})},
                 0);
}

Tensor Routing::dispatch(const Tensor& tokens) const {
  return reshape(spread(tokens, sources_, slots_, sizes_.picks), {sizes_.experts, sizes_.capacity, tokens.dim(1)});
}

Tensor Routing::combine(const Tensor& results) const {
  const int64_t width = results.dim(2);
  const Tensor rows = moved(reshape(results, {sizes_.experts * sizes_.capacity, width}), slots_, sources_);
  return sum(reshape(rows, {tokens_, sizes_.picks, width}) * unsqueeze(weights_, 2), {1});
}

RoutingFindings routing_findings(const Tensor& sums, int64_t tokens, const RoutingSizes& sizes) {
  const auto part = [&](int64_t begin, int64_t end) { return slice(sums, 0, {.start = begin, .stop = end}); };
  const auto count = static_cast<double>(tokens), picks = count * static_cast<double>(sizes.picks);
  const int64_t n = sizes.experts;
  const Tensor balance = sum(stop_gradient(part(0, n)) / picks * (part(n, 2 * n) / count)) * static_cast<double>(n);
  return {balance, squeeze(part(2 * n, 2 * n + 1), 0) / count,
          stop_gradient(squeeze(part(2 * n + 1, 2 * n + 2), 0)) / picks};
}

RoutingScope::RoutingScope() : before_(std::exchange(scope_of_thread, this)) {}
RoutingScope::~RoutingScope() { scope_of_thread = before_; }

bool RoutingScope::active() { return scope_of_thread != nullptr; }

void RoutingScope::note(const RoutingFindings& findings) {
  if (scope_of_thread != nullptr) scope_of_thread->found_.push_back(findings);
}

Tensor RoutingScope::sum_of(Tensor RoutingFindings::*part) const {
  if (found_.empty()) throw ValueError("[RoutingScope] no mixture was called within it yet");
  Tensor total;
  for (const RoutingFindings& found : found_) total = total.defined() ? total + found.*part : found.*part;
  return total;
}

Tensor RoutingScope::balance() const { return sum_of(&RoutingFindings::balance); }
Tensor RoutingScope::z() const { return sum_of(&RoutingFindings::z); }
Tensor RoutingScope::dropped() const { return sum_of(&RoutingFindings::dropped) / static_cast<double>(found_.size()); }

}  // namespace heddle::nn
