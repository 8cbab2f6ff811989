// Composites: functions that record several nodes and say so, for readers of recorded graphs that have one op for them
// (ONNX export).
//
// Purpose: layer_norm() records a dozen nodes; who writes the graph for another program wants to know that they are a
// layer norm of x, and by which numbers. While a CompositeScope is open on a thread, such functions leave a note at
// their result; without one a note costs a look at one pointer. Invariants: a note changes nothing of what is recorded,
// and never stands at a node that is one of its inputs; the nodes of notes live as long as they do. Thread safety:
// per thread, as recording is.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heddle/core/graph/node_ptr.h"

namespace heddle {

class Tensor;

struct Composite {
  std::string_view name;           // of the function, a literal
  NodePtr result;                  // what the function gave
  std::vector<NodePtr> inputs;     // null: left out
  std::vector<int64_t> ints = {};  // the function's own matter: onnx/export/composites.cpp reads them
  double real = 0;
};

using CompositeNotes = std::unordered_map<const Node*, Composite>;  // by result

class CompositeScope {
 public:
  CompositeScope();
  ~CompositeScope();
  CompositeScope(const CompositeScope&) = delete;
  CompositeScope& operator=(const CompositeScope&) = delete;
  static bool active();
  // The notes so far, which the scope forgets.
  CompositeNotes take() { return std::move(notes_); }

 private:
  friend void note_composite(std::string_view, const Tensor&, std::initializer_list<const Tensor*>,
                             std::vector<int64_t>, double);
  CompositeScope* outer_;
  CompositeNotes notes_;
};

// At `result`, which the function made of `inputs` (undefined: left out).
void note_composite(std::string_view name, const Tensor& result, std::initializer_list<const Tensor*> inputs,
                    std::vector<int64_t> ints = {}, double real = 0);

}  // namespace heddle
