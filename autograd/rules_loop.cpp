// The gradient of a loop is a loop the other way, whose body is the gradient of the body.
//
// Its carries are the cotangents of the carries, and the sums of the cotangents of tensors from outside; its slices are
// the cotangents of stacked results and what the gradient reads of the forward iteration: values that the forward loop
// is asked to stack as well (with checkpoint_body the carries alone, from which the body is computed again). It stacks
// the cotangents of the slices. It is an ordinary loop, so it has a gradient in turn.
#include <map>
#include <stdexcept>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/loop_iteration.h"
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
    add_arguments(trace);
    call_forward();
    const std::vector<NodePtr> results = differentiate();
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

  // Carries: a cotangent for each floating carry, a sum for each wanted tensor from outside. Slices: the cotangents of
  // stacked values.
  void add_arguments(BodyTrace& trace) {
    for (size_t c = 0; c < carries(); ++c) {
      const Node& carry = *body_.args[c];
      if (!is_float(carry.dtype)) continue;
      outputs_.push_back(static_cast<int>(c));
      cotangents_.push_back(trace.argument(carry.shape, carry.dtype));
      const auto given = last_.find(static_cast<int>(c));
      inits_.push_back(given != last_.end() ? given->second.node() : zeros(carry.shape, carry.dtype, &device_).node());
    }
    for (size_t i = outer(); i < body_.args.size(); ++i) {
      if (!wants(i)) continue;
      const DType dtype = is_half(body_.args[i]->dtype) ? DType::f32 : body_.args[i]->dtype;  // a long sum
      sums_.push_back(i);
      sum_args_.push_back(trace.argument(body_.args[i]->shape, dtype));
      inits_.push_back(zeros(body_.args[i]->shape, dtype, &device_).node());
    }
    for (const auto& [index, g] : stacked_) {
      const Node& value = *body_.order[static_cast<size_t>(index)];
      cotangents_.push_back(trace.argument(value.shape, value.dtype));
      slices_.push_back(g.node());
    }
  }

  // The next carries and the stacked values of the new loop's body.
  std::vector<NodePtr> differentiate() {
    std::vector<Tensor> outputs;
    for (int c : outputs_)
      outputs.emplace_back(forward_[static_cast<size_t>(body_.index.at(body_.results[static_cast<size_t>(c)].get()))]);
    for (const auto& [index, g] : stacked_) outputs.emplace_back(forward_[static_cast<size_t>(index)]);
    std::vector<size_t> asked;
    for (int c : outputs_) asked.push_back(static_cast<size_t>(c));
    asked.insert(asked.end(), sums_.begin(), sums_.end());
    for (size_t i = carries(); i < outer(); ++i) {
      if (wants(i)) asked.push_back(i);
    }
    std::vector<Tensor> inputs;
    for (size_t i : asked) inputs.emplace_back(forward_[i]);
    const std::vector<Tensor> found = vjp(outputs, inputs, cotangents_);
    std::vector<NodePtr> results;
    for (size_t k = 0; k < asked.size(); ++k) {
      const Node& arg = *body_.args[asked[k]];
      Tensor g = found[k];
      if (asked[k] >= outer()) {
        const Tensor& sum = sum_args_[results.size() - outputs_.size()];
        g = g.defined() ? sum + cast(g, sum.dtype()) : sum;
      }
      results.push_back(g.defined() ? g.node() : zeros(arg.shape, arg.dtype, &device_).node());
    }
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
    for (size_t k = 0; k < outputs_.size(); ++k) {
      const size_t c = static_cast<size_t>(outputs_[k]);
      if (wants(c)) call_.result[c] = loop_carry(loop, static_cast<int>(k));
    }
    for (size_t k = 0; k < sums_.size(); ++k) {
      const Tensor sum = loop_carry(loop, static_cast<int>(outputs_.size() + k));
      call_.result[sums_[k]] = cast(sum, body_.args[sums_[k]]->dtype);
    }
    size_t next = inits_.size();
    for (size_t i = carries(); i < outer(); ++i) {
      if (wants(i)) call_.result[i] = loop_stack(loop, closed.body->index.at(closed.body->results[next++].get()));
    }
  }

  RuleCall& call_;
  std::map<int, Tensor> last_, stacked_;       // cotangents: of carries after the last iteration, of stacked values
  std::vector<int> outputs_;                   // floating carries
  std::vector<size_t> sums_;                   // wanted inputs from outside
  std::vector<Tensor> cotangents_, sum_args_;  // arguments of the new body
  std::vector<NodePtr> inits_, slices_;        // inputs of the new loop
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
