// Losses composed of other functions.
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

template <class F>
Function two(F f) {
  return one([f](Inputs in, const Arguments& a) { return f(in[0], in[1], reduction(a)); });
}

Tensor entropy(Inputs in, const Arguments& a) {
  if (in.size() == 2 && !a.has("ignore_index") && !a.has("label_smoothing"))
    return cross_entropy(in[0], in[1], reduction(a));
  CrossEntropyOptions how{.reduction = reduction(a),
                          .weight = {},
                          .ignore_index = a.maybe_integer("ignore_index"),
                          .label_smoothing = a.real("label_smoothing")};
  if (in.size() == 3) how.weight = in[2];
  return cross_entropy(in[0], in[1], how);
}

}  // namespace

void add_losses(Functions& t) {
  t["cross_entropy"] = one(entropy);
  t["binary_cross_entropy"] = two([](auto&&... a) { return binary_cross_entropy(a...); });
  t["soft_margin_loss"] = two([](auto&&... a) { return soft_margin_loss(a...); });
  t["multilabel_margin_loss"] = two([](auto&&... a) { return multilabel_margin_loss(a...); });
  t["multilabel_soft_margin_loss"] = two([](auto&&... a) { return multilabel_soft_margin_loss(a...); });
  t["smooth_l1_loss"] =
      one([](Inputs in, const Arguments& a) { return smooth_l1_loss(in[0], in[1], a.real("beta", 1), reduction(a)); });
  t["hinge_embedding_loss"] = one([](Inputs in, const Arguments& a) {
    return hinge_embedding_loss(in[0], in[1], a.real("margin", 1), reduction(a));
  });
  t["margin_ranking_loss"] = one([](Inputs in, const Arguments& a) {
    return margin_ranking_loss(in[0], in[1], in[2], a.real("margin"), reduction(a));
  });
  t["cosine_embedding_loss"] = one([](Inputs in, const Arguments& a) {
    return cosine_embedding_loss(in[0], in[1], in[2], a.real("margin"), reduction(a));
  });
  t["triplet_margin_with_distance_loss"] = one([](Inputs in, const Arguments& a) {
    const auto manhattan = [](const Tensor& x, const Tensor& y) { return sum(abs(x - y), {1}); };
    return triplet_margin_with_distance_loss(
        in[0], in[1], in[2], manhattan,
        {.margin = a.real("margin", 1), .swap = a.flag("swap"), .reduction = reduction(a)});
  });
  t["adaptive_log_softmax_with_loss"] = [](Inputs in, const Arguments&) {
    std::vector<AdaptiveTail> tails;
    for (size_t i = 3; i + 1 < in.size(); i += 2) tails.push_back({in[i], in[i + 1]});
    const AdaptiveLogSoftmax result = adaptive_log_softmax_with_loss(in[0], in[1], in[2], tails);
    return std::vector<Tensor>{result.output, result.loss};
  };
  t["triplet_margin_loss"] = one([](Inputs in, const Arguments& a) {
    return triplet_margin_loss(
        in[0], in[1], in[2],
        {.margin = a.real("margin", 1), .p = a.real("p", 2), .swap = a.flag("swap"), .reduction = reduction(a)});
  });
  t["multi_margin_loss"] = one([](Inputs in, const Arguments& a) {
    return multi_margin_loss(in[0], in[1], a.axis("p", 1), a.real("margin", 1), reduction(a));
  });
  t["poisson_nll_loss"] = one([](Inputs in, const Arguments& a) {
    return poisson_nll_loss(
        in[0], in[1],
        {.log_input = a.flag("log_input", true), .stirling = a.flag("stirling"), .reduction = reduction(a)});
  });
  t["gaussian_nll_loss"] = one([](Inputs in, const Arguments& a) {
    return gaussian_nll_loss(in[0], in[1], in[2], {.constant = a.flag("constant"), .reduction = reduction(a)});
  });
  t["sigmoid_focal_loss"] = one([](Inputs in, const Arguments& a) {
    return sigmoid_focal_loss(in[0], in[1], a.real("alpha", 0.25), a.real("gamma", 2), reduction(a, "none"));
  });
  t["dice_loss"] =
      one([](Inputs in, const Arguments& a) { return dice_loss(in[0], in[1], a.real("smooth", 1), reduction(a)); });
}

}  // namespace heddle::tests
