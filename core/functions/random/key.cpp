#include "heddle/core/functions/random/key.h"

#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/trace.h"
#include "heddle/core/graph/transform.h"

namespace heddle::build {
namespace {

// Of nested loops the number among all iterations; undefined outside of a loop.
Tensor number_of_iteration(BodyTrace* loop) {
  if (loop == nullptr) return {};
  const Tensor outer = number_of_iteration(loop->outer());
  if (loop->length() == 0) return outer;
  return outer.defined() ? outer * static_cast<double>(loop->length()) + loop->iteration() : loop->iteration();
}

}  // namespace

NodePtr next_key(DeviceContext& device, Generator* generator) {
  const auto next = [&g = generator ? *generator : default_generator()] {
    HostValue key;
    key.words = {static_cast<uint32_t>(g.seed), static_cast<uint32_t>(g.seed >> 32), static_cast<uint32_t>(g.offset),
                 static_cast<uint32_t>(g.offset >> 32)};
    ++g.offset;
    return key;
  };
  NodePtr leaf = make_host_leaf(device, next(), Shape{4}, DType::i32);
  if (trace::any()) trace::source(leaf, next);
  ExampleScope::note_key(leaf);
  const Tensor iteration = number_of_iteration(BodyTrace::current());
  if (!iteration.defined()) return leaf;
  // The highest word counts the iterations: no program draws 2^32 times under one seed.
  const Tensor highest = cast(eq(arange(0, 4, 1, DType::i32, &device), 3.0), DType::i32);
  return (Tensor(leaf) + highest * iteration).node();
}

}  // namespace heddle::build
