// Writer: from a recorded graph to the nodes of a model.
//
// Purpose: one call of a row (rows.h) for each vertex; here is what rows share: names, constants, sizes that vary, and
// broadcasting. ONNX's elementwise ops broadcast, Heddle's vertices have one shape: what is repeated only to meet
// another operand is not repeated in the file (Given). Invariants: names are unique in the whole file, those of
// parameters are what the caller said; the same graph gives the same model. Errors: ValueError "[export] ..." that
// lists all ops without a row, with their counts. Thread safety: none.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "heddle/onnx/export/expression.h"
#include "heddle/onnx/export/recorded.h"
#include "heddle/onnx/model_file.h"

namespace heddle::onnx {

struct WriterOptions {
  int opset = 17;
  bool functions = true;  // rows without an op are functions of the file, else their nodes
  std::vector<std::string> inputs, outputs;
  std::map<const heddle::Node*, std::string> parameters;  // names of leaves
};

// A value of the written graph, whose shape broadcasts to that of its vertex.
struct Given {
  std::string name;
  Sizes shape;
};

// A graph that is written: the model's, or the body of a loop.
struct Level {
  const RecordedGraph& recorded;
  Graph graph;
  std::vector<Given> values;                           // by vertex
  std::map<int, std::vector<std::string>> loops = {};  // results of loops, carries first
  std::map<int, std::vector<int>> stacked = {};        // which values of bodies they are, behind the carries
};

class Writer {
 public:
  Writer(const Recorded& recorded, const WriterOptions& options) : recorded_(recorded), options_(options) {}
  ModelFile finish();

  // ---- for rows

  int opset() const { return options_.opset; }
  bool functions() const { return options_.functions; }
  const Symbols& symbols() const { return recorded_.symbols; }
  std::string fresh(const std::string& base);
  // One node; the names of its results.
  std::vector<std::string> node(Level& level, const std::string& op, std::vector<std::string> inputs,
                                std::map<std::string, Attribute> attributes, size_t results,
                                const std::string& domain = "");
  std::string node(Level& level, const std::string& op, std::vector<std::string> inputs,
                   std::map<std::string, Attribute> attributes = {}, const std::string& domain = "") {
    return node(level, op, std::move(inputs), std::move(attributes), 1, domain)[0];
  }
  // Initializers. The same numbers are one.
  std::string constant(const HostTensor& value, const std::string& base);
  std::string number(double value, DType dtype);
  std::string wholes(const std::vector<int64_t>& values);  // int64, of rank 1
  std::string sizes(const Sizes& sizes);                   // the same of sizes that may vary
  std::string whole(const Size& size);                     // int64, of rank 0
  // The name of a value with all of its shape.
  std::string full(Level& level, const Given& value, const Sizes& shape);
  std::string reshaped(Level& level, const std::string& name, const Sizes& from, const Sizes& to);
  // Of an expression over values: a node, a function's call, or nodes. `exact`: never a function.
  std::string expression(Level& level, const std::string& name, const std::vector<Step>& steps,
                         const std::vector<std::string>& inputs, DType dtype, bool exact);
  void lacking(const std::string& what) { ++lacking_[what]; }
  // The body of a loop, written into a level of its own.
  Graph body(Level& around, const Vertex& loop, const std::vector<int>& stacked);

 private:
  void vertices(Level& level);
  Given leaf(Level& level, const Vertex& vertex);
  std::string size(const Size& size);  // int64, of rank 1 with one element
  std::string symbol(size_t index);
  Port port(const std::string& name, DType dtype, const Sizes& shape) const;
  void outputs(Level& level);
  void check() const;

  const Recorded& recorded_;
  const WriterOptions& options_;
  Level* root_ = nullptr;
  ModelFile model_;
  std::set<std::string> used_;
  std::map<std::string, int> counts_;
  std::map<std::string, std::string> constants_;  // by content
  std::map<std::vector<int64_t>, std::string> sizes_;
  std::map<std::string, int> lacking_;
};

// The shape to which all of them broadcast.
Sizes broadcast_sizes(const std::vector<const Sizes*>& shapes);

}  // namespace heddle::onnx
