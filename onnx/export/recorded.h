// Recorded: what a function computes, as a graph whose sizes may depend on names.
//
// Purpose: a function is called once for each recording that Symbols wants, over stand-ins without values; the
// recordings are walked side by side, node by node, and become one graph. Rows without a meaning in ONNX are replaced
// by their decomposition, composites (core/graph/composite.h) that ONNX has an op for stay whole. Invariants: a vertex
// stands behind its inputs; a leaf is a value that was there before, an input, or what a loop's body is given. Errors:
// ValueError "[export] ..." where the recordings differ in more than sizes, or the function looks at a value. Thread
// safety: recording is per thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/graph/composite.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/op.h"
#include "heddle/onnx/export.h"
#include "heddle/onnx/export/size.h"

namespace heddle::onnx {

struct RecordedGraph;

struct Vertex {
  const OpDef* op = nullptr;
  DType dtype = DType::f32;
  Sizes shape, ints;  // ints: of the attributes, or of the composite
  double real = 0, real2 = 0;
  std::vector<int> inputs;  // -1: left out, of a composite
  NodePtr node;             // of the first recording: what a leaf holds
  std::string_view composite;
  int input = -1;                             // the number of the function's input, or of the body's argument
  std::shared_ptr<const RecordedGraph> body;  // of a loop
};

struct RecordedGraph {
  std::vector<Vertex> vertices;
  std::vector<int> results;
  // Of a body: the vertices behind those of its values that somebody asked for in every iteration, by their place in
  // LoopBody::order.
  std::map<int, int> stacked;
};

// Whether a composite stays whole; asked with its note and the nodes that it names.
using KeepsComposite = Callable<bool(const Composite&)>;

struct Recorded {
  Symbols symbols;
  std::vector<Sizes> inputs;  // shapes
  RecordedGraph graph;
};

Recorded record(const ExportFunction& function, const std::vector<ExportInput>& inputs, DeviceContext& device,
                const KeepsComposite& keeps);

}  // namespace heddle::onnx
