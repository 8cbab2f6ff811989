// Losses over sequences, and losses with weights.
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {}  // namespace

void add_sequence(Functions& t) {
  t["ctc_loss"] = one([](Inputs in, const Arguments& a) {
    return ctc_loss(log_softmax(in[0], 2), in[1], in[2], in[3],
                    {.blank = a.integer("blank"), .reduction = reduction(a), .zero_infinity = a.flag("zero_infinity")});
  });
  t["nll_loss"] = one([plain = t.at("nll_loss")](Inputs in, const Arguments& a) {
    if (in.size() == 2 && !a.has("ignore_index")) return plain(in, a)[0];
    return nll_loss(in[0], in[1],
                    NllOptions{.reduction = reduction(a),
                               .weight = in.size() == 3 ? in[2] : Tensor(),
                               .ignore_index = a.maybe_integer("ignore_index")});
  });
  t["bce_with_logits"] = one([plain = t.at("bce_with_logits")](Inputs in, const Arguments& a) {
    if (in.size() == 2) return plain(in, a)[0];
    size_t next = 2;
    const Tensor weight = a.flag("weighted") ? in[next++] : Tensor(),
                 positive = a.flag("positive") ? in[next] : Tensor();
    return bce_with_logits(in[0], in[1],
                           BceOptions{.reduction = reduction(a), .weight = weight, .positive_weight = positive});
  });
}

}  // namespace heddle::tests
