// The gradient of a loop is a loop the other way, whose body is the gradient of the body.
//
// Its carries are the cotangents of the carries, and those sums of the cotangents of tensors from outside that are not
// computed after it (autograd/loop_sums.h); its slices are the cotangents of stacked results and what the gradient
// reads of the forward iteration: values that the forward loop is asked to stack as well (with checkpoint_body the
// carries alone, from which the body is computed again). It stacks the cotangents of the slices, and what sums after it
// read. It is an ordinary loop, so it has a gradient in turn.
#include <algorithm>
#include <map>
#include <stdexcept>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/loop_iteration.h"
#include "heddle/autograd/loop_sums.h"
#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

class LoopGradient : LoopIteration {
 public:
  explicit LoopGradient(RuleCall& call) : LoopIteration(call.out.node()), call_(call) {}

  void run() {
    collect_cotangents();
    BodyTrace trace(device_, shape_.length);
    add_cotangents();
    call_forward();
    differentiate();
    choose_sums();
    const std::vector<NodePtr> results = add_arguments(trace);
    find_replacements(results, trace);
    const BodyTrace::Closed closed = trace.close(substitute(results, replaced_));
    give_results(closed);
  }

 private:
  bool wants(size_t input) const { return call_.wants(input); }

  void collect_cotangents() {
    for (const auto& [result, g] : call_.parts) {
      const LoopResultAttrs asked(result->attrs);
      const auto [at, fresh] = (asked.stacked ? stacked_ : last_).try_emplace(asked.index, g);
      if (!fresh) at->second = at->second + g;
    }
  }

  // Stand-ins for the cotangents of floating carries and of stacked values, until add_arguments().
  void add_cotangents() {
    const auto stand_in = [&](const Node& value) {
      const NodePtr node = make_node_on(device_, ops::loop_arg_op, {}, value.shape, value.dtype);
      node->tracks = grad_mode() && is_float(value.dtype);
      cotangents_.emplace_back(node);
    };
    for (size_t c = 0; c < carries(); ++c) {
      if (!is_float(body_.args[c]->dtype)) continue;
      outputs_.push_back(c);
      stand_in(*body_.args[c]);
    }
    for (const auto& [index, g] : stacked_) stand_in(*body_.order[static_cast<size_t>(index)]);
    for (size_t i = outer(); i < body_.args.size(); ++i) {
      if (wants(i)) sums_.push_back({i});
    }
  }

  void differentiate() {
    std::vector<Tensor> outputs;
    for (size_t c : outputs_)
      outputs.emplace_back(forward_[static_cast<size_t>(body_.index.at(body_.results[c].get()))]);
    for (const auto& [index, g] : stacked_) outputs.emplace_back(forward_[static_cast<size_t>(index)]);
    std::vector<size_t> asked = outputs_;
    for (size_t i = carries(); i < outer(); ++i) {
      if (wants(i)) asked.push_back(i);
    }
    const size_t terms = asked.size();
    for (const Sum& sum : sums_) asked.push_back(sum.input);
    std::vector<Tensor> inputs;
    for (size_t i : asked) inputs.emplace_back(forward_[i]);
    const std::vector<Tensor> found = vjp(outputs, inputs, cotangents_);
    for (size_t k = 0; k < terms; ++k) {
      const Node& arg = *body_.args[asked[k]];
      const NodePtr g = found[k].defined() ? found[k].node() : zeros(arg.shape, arg.dtype, &device_).node();
      (k < outputs_.size() ? next_ : of_slices_).push_back(g);
    }
    for (size_t k = 0; k < sums_.size(); ++k) sums_[k].term = found[terms + k];
  }

  // What late sums stack for themselves is no more than what the loop reads from stacks anyway, so that a gradient
  // keeps at most twice as much for them; with checkpoint_body, which is there to keep less, nothing.
  void choose_sums() {
    std::vector<NodePtr> others = next_;
    others.insert(others.end(), of_slices_.begin(), of_slices_.end());
    int64_t room = 0;
    if (!shape_.checkpoint) {
      for (const NodePtr& kept : kept_below(others)) room += is_from_outside(*kept) ? 0 : kept->shape.numel();
    }
    const auto is_stacked = [&](const Node& node) {
      const auto same = [&](const NodePtr& g) { return g.get() == &node; };
      return std::any_of(of_slices_.begin(), of_slices_.end(), same) || (is_kept(node) && !is_from_outside(node));
    };
    std::vector<Tensor> terms;
    for (const Sum& sum : sums_) terms.push_back(sum.term);
    const LateSums late = choose_late_sums(terms, is_stacked, room);
    factors_ = late.factors;
    for (size_t k = 0; k < sums_.size(); ++k) sums_[k].late = late.chosen[k];
  }

  // What the new loop's body computes: the next carries, what is stacked. Carries: a cotangent for each floating one,
  // sums. Slices: the cotangents of stacked values.
  std::vector<NodePtr> add_arguments(BodyTrace& trace) {
    std::vector<NodePtr> results = next_;
    size_t cotangent = 0;
    const auto add_cotangent = [&] {
      const Tensor& stand_in = cotangents_[cotangent++];
      replaced_.emplace(stand_in.node().get(), trace.argument(stand_in.shape(), stand_in.dtype()).node());
    };
    for (size_t c : outputs_) {
      add_cotangent();
      const auto given = last_.find(static_cast<int>(c));
      const Node& carry = *body_.args[c];
      inits_.push_back(given != last_.end() ? given->second.node() : zeros(carry.shape, carry.dtype, &device_).node());
    }
    for (const Sum& sum : sums_) {
      if (!sum.in_loop()) continue;
      const Node& arg = *body_.args[sum.input];
      const DType dtype = is_half(arg.dtype) ? DType::f32 : arg.dtype;  // a long sum
      results.push_back((trace.argument(arg.shape, dtype) + cast(sum.term, dtype)).node());
      inits_.push_back(zeros(arg.shape, dtype, &device_).node());
    }
    for (const auto& [index, g] : stacked_) {
      add_cotangent();
      slices_.push_back(g.node());
    }
    results.insert(results.end(), of_slices_.begin(), of_slices_.end());
    results.insert(results.end(), factors_.begin(), factors_.end());
    return results;
  }

  void give_results(const BodyTrace::Closed& closed) {
    for (const NodePtr& stack : residual_stacks()) slices_.push_back(stack);
    LoopShape shape{shape_.length, static_cast<int>(inits_.size()), static_cast<int>(slices_.size()), !shape_.reverse,
                    shape_.checkpoint};
    std::vector<NodePtr> inputs = inits_;
    inputs.insert(inputs.end(), slices_.begin(), slices_.end());
    inputs.insert(inputs.end(), closed.captured.begin(), closed.captured.end());
    const NodePtr loop = make_loop(device_, closed.body, std::move(inputs), shape);
    int carry = 0;
    for (size_t c : outputs_) {
      if (wants(c)) call_.result[c] = loop_carry(loop, carry);
      ++carry;
    }
    for (const Sum& sum : sums_) {
      if (sum.in_loop()) call_.result[sum.input] = loop_carry(loop, carry++);
    }
    size_t next = inits_.size();
    const auto next_stack = [&] { return loop_stack(loop, closed.body->index.at(closed.body->results[next++].get())); };
    for (size_t i = carries(); i < outer(); ++i) {
      if (wants(i)) call_.result[i] = next_stack();
    }
    FactorStacks stacks;
    for (const NodePtr& factor : factors_) stacks.emplace(factor.get(), next_stack());
    for (const Sum& sum : sums_) {
      if (sum.late) call_.result[sum.input] = sum_after_loop(sum.term.node(), stacks);
      Tensor& result = call_.result[sum.input];
      if (result.defined()) result = cast(result, body_.args[sum.input]->dtype);
    }
  }

  // Of the cotangents of a tensor from outside; undefined terms are zero.
  struct Sum {
    size_t input = 0;
    Tensor term = {};
    bool late = false;  // computed after the loop
    bool in_loop() const { return term.defined() && !late; }
  };

  RuleCall& call_;
  std::map<int, Tensor> last_, stacked_;   // cotangents: of carries after the last iteration, of stacked values
  std::vector<size_t> outputs_;            // floating carries
  std::vector<Sum> sums_;                  // of wanted inputs from outside
  std::vector<Tensor> cotangents_;         // stand-ins
  std::vector<NodePtr> next_, of_slices_;  // cotangents of carries and of slices, in the new body
  std::vector<NodePtr> factors_;           // of late sums
  std::vector<NodePtr> inits_, slices_;    // inputs of the new loop
};

void loop_gradient(RuleCall& call) { LoopGradient(call).run(); }

// vjp() hands the cotangents of its results to the loop, forward mode their tangents.
void passed_on(RuleCall&) { throw std::logic_error("[grad] the gradient of a loop's result belongs to its loop"); }

void refuse(RuleCall& call) {
  throw GradError(
      "[while_loop] the gradient of a " + call.node.shape.str() +
      " tensor is asked for, but a loop of unknown length keeps nothing for it; set WhileOptions::max_iterations");
}

}  // namespace

void add_loop_rules(RuleTable& table) {
  table[&ops::loop_op].rule = loop_gradient;
  table[&ops::loop_result_op].rule = passed_on;
  table[&ops::while_result_op].rule = refuse;
}

}  // namespace heddle::autograd
