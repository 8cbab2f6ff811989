// Forward mode through a loop: a loop the same way, whose body is the forward derivative of the body.
//
// Its carries are the tangents of the floating carries; its slices are the tangents of slices and what they read of the
// forward iteration, which the forward loop stacks. Tangents of tensors from outside are read as they are. It is an
// ordinary loop, so it is differentiated and mapped in turn.
#include <unordered_map>

#include "heddle/autograd/loop_iteration.h"
#include "heddle/autograd/record.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

class LoopTangent : LoopIteration {
 public:
  LoopTangent(const NodePtr& loop, std::vector<Tensor> tangents) : LoopIteration(loop), given_(std::move(tangents)) {}

  PushedLoop run() {
    for (size_t c = 0; c < carries(); ++c) {
      const Node& carry = *body_.args[c];
      if (!is_float(carry.dtype)) continue;
      inits_.push_back(given_[c].defined() ? given_[c].node() : zeros(carry.shape, carry.dtype, &device_).node());
    }
    BodyTrace trace(device_, shape_.length);
    Tangents tangents = arguments(trace);
    call_forward();
    Tangents of_nodes;
    for (size_t i = 0; i < body_.args.size(); ++i) of_nodes.emplace(forward_[i].get(), tangents[body_.args[i].get()]);
    const std::vector<NodePtr> results = differentiate(std::move(of_nodes));
    find_replacements(results, trace);
    const BodyTrace::Closed closed = trace.close(substitute(results, replaced_));
    return loop_of(closed);
  }

 private:
  // By argument of the forward body; undefined: zero.
  Tangents arguments(BodyTrace& trace) {
    Tangents made;
    for (size_t i = 0; i < body_.args.size(); ++i) {
      const Node& arg = *body_.args[i];
      Tensor tangent;
      if (i < carries()) {
        if (is_float(arg.dtype)) {
          pushed_.carries.emplace(static_cast<int>(i), static_cast<int>(pushed_.carries.size()));
          tangent = trace.argument(arg.shape, arg.dtype);
        }
      } else if (i < outer()) {
        if (given_[i].defined()) {
          tangent = trace.argument(arg.shape, arg.dtype);
          slices_.push_back(given_[i].node());
        }
      } else {
        tangent = given_[i];
      }
      made.emplace(&arg, tangent);
    }
    return made;
  }

  // The next tangents of carries, then those of all values of the body that have one: somebody may ask the loop for
  // any, and what nobody asks for costs nothing.
  std::vector<NodePtr> differentiate(Tangents tangents) {
    std::vector<Tensor> outputs;
    for (const auto& node : forward_) outputs.emplace_back(node);
    const std::vector<Tensor> found = push_values(outputs, std::move(tangents));
    std::vector<NodePtr> results;
    for (size_t c = 0; c < carries(); ++c) {
      const Node& carry = *body_.args[c];
      if (!is_float(carry.dtype)) continue;
      const Tensor& t = found[static_cast<size_t>(body_.index.at(body_.results[c].get()))];
      results.push_back(t.defined() ? t.node() : zeros(carry.shape, carry.dtype, &device_).node());
    }
    for (size_t i = body_.args.size(); i < forward_.size(); ++i) {
      if (!found[i].defined()) continue;
      values_.push_back(static_cast<int>(i));
      results.push_back(found[i].node());
    }
    return results;
  }

  static std::vector<Tensor> push_values(const std::vector<Tensor>& outputs, Tangents tangents) {
    std::vector<Tensor> asked;
    std::vector<size_t> which;
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].node()->op == &ops::loop_op) continue;
      asked.push_back(outputs[i]);
      which.push_back(i);
    }
    const std::vector<Tensor> found = push_forward(asked, std::move(tangents));
    std::vector<Tensor> all(outputs.size());
    for (size_t k = 0; k < which.size(); ++k) all[which[k]] = found[k];
    return all;
  }

  PushedLoop loop_of(const BodyTrace::Closed& closed) {
    for (const NodePtr& stack : residual_stacks()) slices_.push_back(stack);
    const LoopShape shape{shape_.length, static_cast<int>(inits_.size()), static_cast<int>(slices_.size()),
                          shape_.reverse, shape_.checkpoint};
    std::vector<NodePtr> inputs = inits_;
    inputs.insert(inputs.end(), slices_.begin(), slices_.end());
    inputs.insert(inputs.end(), closed.captured.begin(), closed.captured.end());
    pushed_.loop = make_loop(device_, closed.body, std::move(inputs), shape);
    for (size_t k = 0; k < values_.size(); ++k)
      pushed_.values.emplace(values_[k], closed.body->index.at(closed.body->results[inits_.size() + k].get()));
    for (const auto& [carry, number] : pushed_.carries) pushed_.values.emplace(carry, number);
    return std::move(pushed_);
  }

  std::vector<Tensor> given_;
  std::vector<NodePtr> inits_, slices_;
  std::vector<int> values_;
  PushedLoop pushed_;
};

}  // namespace

PushedLoop push_loop(const NodePtr& loop, std::vector<Tensor> tangents) {
  return LoopTangent(loop, std::move(tangents)).run();
}

Tensor pushed_part(const PushedLoop& pushed, const Node& result) {
  const LoopResultAttrs asked(result.attrs);
  const bool carry = !asked.stacked;
  const std::unordered_map<int, int>& known = carry ? pushed.carries : pushed.values;
  const auto found = known.find(asked.index);
  if (pushed.loop == nullptr || found == known.end()) return {};
  return carry ? loop_carry(pushed.loop, found->second) : loop_stack(pushed.loop, found->second);
}

}  // namespace heddle::autograd
