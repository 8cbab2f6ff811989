// What the tests of auto_shard share: losses with their gradients as functions of whole values.
#pragma once

#include <functional>
#include <vector>

#include "heddle/autograd/transforms.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/distributed/auto_shard.h"
#include "tests/distributed/ranks_by_hand.h"

namespace heddle::distributed::test {

// f's loss of parameters, and its gradients by all but the first argument.
inline ShardFunction with_gradients(std::function<Tensor(const List&)> loss) {
  return [loss = std::move(loss)](const List& in) {
    const List parameters(in.begin() + 1, in.end());
    const auto of = [&](const List& given) {
      List all{in[0]};
      all.insert(all.end(), given.begin(), given.end());
      return loss(all);
    };
    const auto [value, gradients] = value_and_grad(of)(parameters);
    List results{value};
    results.insert(results.end(), gradients.begin(), gradients.end());
    return results;
  };
}

// x, w1, b1, w2, b2
inline Tensor mlp_loss(const List& in) { return mean(square(linear(gelu(linear(in[0], in[1], in[2])), in[3], in[4]))); }
inline const std::vector<Spec> mlp_parameters = {Spec{{"tp"}}, Spec{{"tp"}}, Spec{{{}, "tp"}}, Spec{}};

inline std::vector<Spec> before(const Spec& first, const std::vector<Spec>& rest) {
  std::vector<Spec> all{first};
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

inline Tensor on_reference(const Shape& shape, uint32_t seed) {
  return drawn(shape, seed, DType::f64, heddle::device("reference:0"));
}

}  // namespace heddle::distributed::test
