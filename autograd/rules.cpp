#include "heddle/autograd/rules.h"

#include "heddle/core/op/user_row.h"

namespace heddle::autograd {

const GradientRow* find_gradient(const OpDef& op) {
  static const RuleTable table = [] {
    RuleTable made;
    add_elementwise_rules(made);
    add_reduce_rules(made);
    add_movement_rules(made);
    add_index_rules(made);
    add_contraction_rules(made);
    add_attention_rules(made);
    add_fused_rules(made);
    add_scan_rules(made);
    add_linalg_rules(made);
    add_spectral_rules(made);
    add_loop_rules(made);
    add_collective_rules(made);
    add_custom_rules(made);
    add_reasons(made);
    return made;
  }();
  if (as_user(op) != nullptr) return &user_gradient_row();
  const auto found = table.find(&op);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace heddle::autograd
