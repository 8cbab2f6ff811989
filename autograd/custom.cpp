#include "heddle/autograd/custom.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "heddle/autograd/batching.h"
#include "heddle/autograd/record.h"
#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/custom.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace detail {

Leaves::Leaves(std::span<Tensor* const> places) {
  for (const Tensor* place : places) {
    const bool floats = place->defined() && is_float(place->dtype());
    kinds.push_back(!place->defined() ? 0 : floats ? 1 : 2);
    if (floats) like.push_back({place->shape(), place->dtype(), &place->device()});
    if (place->defined()) (floats ? floating : others).push_back(*place);
  }
}

std::pair<std::vector<Tensor>, std::vector<Tensor>> Leaves::take() {
  return {std::exchange(floating, {}), std::exchange(others, {})};
}

void Leaves::put(std::span<Tensor* const> places, std::span<const Tensor> floats, std::span<const Tensor> rest) const {
  size_t next_float = 0, next_other = 0;
  for (size_t i = 0; i < places.size(); ++i) {
    if (kinds[i] == 1 && next_float < floats.size()) *places[i] = floats[next_float++];
    if (kinds[i] == 2 && next_other < rest.size()) *places[i] = rest[next_other++];
  }
}

std::vector<Tensor> joined(std::vector<Tensor> a, const std::vector<Tensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

bool any_tracks(const std::vector<Tensor>& tensors) {
  return grad_mode() && std::any_of(tensors.begin(), tensors.end(), [](const Tensor& x) { return x.requires_grad(); });
}

std::vector<Tensor> for_floating(const std::vector<Tensor>& given, const Leaves& arguments, const char* who) {
  const std::vector<Like>& like = arguments.like;
  std::vector<Tensor> found;
  if (given.size() == like.size()) {
    found = given;
  } else if (given.size() == arguments.kinds.size()) {
    for (size_t i = 0; i < given.size(); ++i) {
      if (arguments.kinds[i] == 1) found.push_back(given[i]);
    }
  } else {
    throw GradError(fmt::format("[{}] the rule gave {} tensors, but there are {} floating ones to give something for",
                                who, given.size(), like.size()));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    const Tensor& x = found[i];
    if (!x.defined() || (x.shape() == like[i].shape && x.dtype() == like[i].dtype)) continue;
    throw GradError(fmt::format("[{}] the rule gave {} {} for tensor {}, which is {} {}; both must be the same", who,
                                x.shape().str(), name_of(x.dtype()), i, like[i].shape.str(), name_of(like[i].dtype)));
  }
  return found;
}

std::vector<Tensor> zeros_but(const Leaves& results, size_t number, const Tensor& g) {
  std::vector<Tensor> all;
  for (size_t i = 0; i < results.like.size(); ++i) {
    const Like& like = results.like[i];
    // Under vmap the cotangent is that of one example, as the value was.
    all.push_back(i == number ? g : zeros(like.shape, like.dtype, like.device));
  }
  return all;
}

namespace {

void wrap(std::span<Tensor* const> results, std::span<const Tensor> arguments, std::span<const Tensor> others,
          const std::function<void(CustomRule&, size_t)>& fill) {
  std::vector<Tensor> inputs(arguments.begin(), arguments.end());
  inputs.insert(inputs.end(), others.begin(), others.end());
  size_t number = 0;
  for (Tensor* result : results) {
    if (!result->defined() || !is_float(result->dtype())) continue;
    auto rule = std::make_shared<CustomRule>();
    rule->arguments = arguments.size();
    fill(*rule, number++);
    *result = make_custom(*result, inputs, std::move(rule));
  }
}

}  // namespace

void wrap_vjp(const std::vector<Tensor*>& results, const std::vector<Tensor>& arguments,
              const std::vector<Tensor>& others, const CustomVjp& vjp) {
  const size_t skipped = 1 + arguments.size();
  wrap(results, arguments, others, [&](CustomRule& rule, size_t number) {
    rule.name = "custom_vjp";
    rule.vjp = [vjp, number, skipped](std::span<const Tensor> inputs, const Tensor& g) {
      return vjp(inputs.subspan(skipped), number, g);
    };
  });
}

void wrap_jvp(const std::vector<Tensor*>& results, const std::vector<Tensor>& arguments,
              const std::vector<Tensor>& others, const CustomJvp& jvp) {
  const size_t count = arguments.size();
  wrap(results, arguments, others, [&](CustomRule& rule, size_t number) {
    rule.name = "custom_jvp";
    rule.jvp = [jvp, number, count](std::span<const Tensor> inputs, std::span<const Tensor> tangents) {
      return jvp(inputs.subspan(1, count), inputs.subspan(1 + count), tangents)[number];
    };
  });
}

}  // namespace detail

namespace autograd {
namespace {

std::shared_ptr<const CustomRule> rule_of(const Node& node) {
  if (std::shared_ptr<const CustomRule> rule = find_custom_rule(node)) return rule;
  throw GradError(
      "[custom] the rule of this function was lost where its operations were recorded anew (the body of a scan); its "
      "gradient cannot be taken there");
}

// A forward rule transposed: tangents that stand for any, pulled back.
std::vector<Tensor> transposed(const CustomRule& rule, const RuleCall& call) {
  std::vector<Tensor> tangents, pulled(rule.arguments);
  std::vector<Tensor> outputs;
  {
    const GradMode on(true);
    for (size_t i = 0; i < rule.arguments; ++i) tangents.push_back(zero_stand_in(*call.in[1 + i].node()));
    outputs.push_back(rule.jvp(call.in, tangents));
  }
  if (!outputs[0].defined()) return pulled;
  std::unordered_set<const Node*> stops;
  for (const Tensor& x : call.in) stops.insert(x.node().get());
  for (const Tensor& x : tangents) stops.insert(x.node().get());
  return vjp_until(outputs, tangents, {&call.g, 1}, std::move(stops));
}

void custom_gradient(RuleCall& call) {
  const std::shared_ptr<const CustomRule> rule = rule_of(call.node);
  const std::vector<Tensor> pulled = rule->vjp ? rule->vjp(call.in, call.g) : transposed(*rule, call);
  for (size_t i = 0; i < rule->arguments; ++i) call.result[1 + i] = pulled[i];
}

// ---- vmap: the rule mapped over what is mapped

// run(examples) with `given` mapped where `mapped` says so.
std::vector<Tensor> map_over(int64_t size, std::vector<Tensor> given, const std::vector<bool>& mapped,
                             const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& run) {
  std::vector<std::vector<Tensor*>> places;
  InAxes axes;
  for (size_t i = 0; i < given.size(); ++i) {
    places.push_back({&given[i]});
    axes.push_back(mapped[i] ? std::optional(0) : std::nullopt);
  }
  VmapOptions options;
  options.axis_size = size;
  heddle::detail::Mapping mapping(axes, options, places);
  std::vector<Tensor> results = mapping.run([&] { return run(given); });
  std::vector<Tensor*> made;
  for (Tensor& result : results) made.push_back(&result);
  mapping.finish({0}, made);
  return results;
}

Tensor custom_batched(const BatchCall& call) {
  const std::shared_ptr<const CustomRule> inner = rule_of(call.node);
  auto rule = std::make_shared<CustomRule>();
  rule->name = inner->name;
  rule->arguments = inner->arguments;
  const int64_t size = call.size;
  std::vector<bool> mapped = call.mapped;
  mapped[0] = true;
  if (inner->vjp) {
    rule->vjp = [inner, size, mapped](std::span<const Tensor> inputs, const Tensor& g) {
      std::vector<Tensor> given(inputs.begin(), inputs.end());
      std::vector<bool> with_g = mapped;
      given.push_back(g);
      with_g.push_back(true);
      std::vector<Tensor> pulled = map_over(size, std::move(given), with_g, [&](const std::vector<Tensor>& x) {
        return inner->vjp(std::span(x).first(x.size() - 1), x.back());
      });
      for (size_t i = 0; i < pulled.size(); ++i) {
        if (pulled[i].defined() && !mapped[1 + i]) pulled[i] = sum(pulled[i], {0});
      }
      return pulled;
    };
  }
  if (inner->jvp) {
    rule->jvp = [inner, size, mapped](std::span<const Tensor> inputs, std::span<const Tensor> tangents) {
      std::vector<Tensor> given(inputs.begin(), inputs.end());
      std::vector<bool> with_t = mapped;
      for (size_t i = 0; i < tangents.size(); ++i) {
        given.push_back(tangents[i]);
        with_t.push_back(mapped[1 + i]);
      }
      const size_t count = inputs.size();
      return map_over(size, std::move(given), with_t, [&](const std::vector<Tensor>& x) {
        return std::vector<Tensor>{inner->jvp(std::span(x).first(count), std::span(x).subspan(count))};
      })[0];
    };
  }
  return make_custom(call.lifted(0), std::span(call.in).subspan(1), std::move(rule));
}

}  // namespace

void add_custom_rules(RuleTable& table) { table[&ops::custom_op].rule = custom_gradient; }
void add_custom_batching(BatchTable& table) { table[&ops::custom_op].rule = custom_batched; }

}  // namespace autograd
}  // namespace heddle
