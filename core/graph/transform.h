// What a function transform (autograd/transforms.h) tells the recording layer while it runs the user's function.
//
// Purpose: a transform records a function once, over stand-ins of its arguments, and makes another graph from what was
// recorded. vmap's stand-ins are examples: leaves with the shape of one slice of the mapped axis and without a value.
// What is recorded from them can never be evaluated; it is neither remembered as pending nor run eagerly. Invariants:
// scopes nest as the transforms do. Looking at a value that depends on an example is a ValueError
// (core/record/capture.cpp). Thread safety: per thread, as recording is.
#pragma once

#include <vector>

#include "heddle/core/graph/node_ptr.h"

namespace heddle {

class Shape;

// While alive, this thread runs a function for a transform: a compiled function that it calls records its operations as
// a part of it.
class TransformScope {
 public:
  TransformScope();
  ~TransformScope();
  TransformScope(const TransformScope&) = delete;
  TransformScope& operator=(const TransformScope&) = delete;
  static bool active();
};

// While alive, this thread records over examples.
class ExampleScope {
 public:
  ExampleScope();
  ~ExampleScope();
  ExampleScope(const ExampleScope&) = delete;
  ExampleScope& operator=(const ExampleScope&) = delete;
  static bool active();
  // Called with each key that a random draw takes (core/functions/random/key.h): every scope that is open remembers it.
  static void note_key(const NodePtr& key);
  // The keys taken so far, in order.
  const std::vector<NodePtr>& keys() const { return keys_; }

 private:
  ExampleScope* outer_;
  TransformScope transform_;
  std::vector<NodePtr> keys_;
};

// A leaf without a value in the place of one slice of `whole`: it tracks gradients if that does.
NodePtr make_example(const Node& whole, const Shape& shape);
bool is_example(const Node& node);
// Whether a pending node is computed from an example.
bool depends_on_example(const NodePtr& node);

}  // namespace heddle
