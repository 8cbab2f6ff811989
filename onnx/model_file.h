// What an ONNX file says, in plain structures: nodes, tensors, types.
//
// Invariants, as parse() (parse.h) and check() (check.h) leave them: nodes stand in an order in which every value is
// made before it is used, no two values of a graph and what surrounds it share a name, subgraphs are nested at most 64
// deep, sizes of tensors fit what the file holds. Thread safety: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "heddle/onnx/host_tensor.h"

namespace heddle::onnx {

struct Graph;

struct Attribute {
  using Graphs = std::vector<std::shared_ptr<const Graph>>;
  // Names an attribute of the function in whose body the node stands.
  struct OfFunction {
    std::string name;
  };
  // A type that no op here reads (sparse tensors, several tensors).
  struct Other {
    std::string what;
  };
  std::variant<double, int64_t, std::string, HostTensor, std::shared_ptr<const Graph>, std::vector<double>,
               std::vector<int64_t>, std::vector<std::string>, OfFunction, Other>
      value;
};

struct Node {
  std::string name, op, domain;
  std::vector<std::string> inputs, outputs;  // empty: none
  std::map<std::string, Attribute> attributes;
  std::string label;  // the name, or where it has none the op and its first output
};

// A dimension with a size, a name, or neither.
struct Dimension {
  std::optional<int64_t> size;
  std::string name;
  std::string str() const;  // "3", "N", "?"
};

enum class PortKind { tensor, sequence, optional, other };
// What a graph takes or gives.
struct Port {
  std::string name;
  PortKind kind = PortKind::tensor;
  bool of_sequences = false;                    // an optional one: sequences, not tensors
  Type type = Type::none;                       // of the tensors in it
  std::optional<std::vector<Dimension>> shape;  // nothing: any rank
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;
  std::vector<Port> inputs, outputs;
  std::map<std::string, HostTensor> constants;  // initializers
};

using Opsets = std::map<std::string, int>;

// A function that the file defines: a node with its name and domain stands for its nodes.
struct Function {
  std::string name, domain;
  std::vector<std::string> inputs, outputs, attributes;
  std::map<std::string, Attribute> defaults;
  Opsets opsets;
  Graph body;  // nodes alone
};

struct ModelFile {
  Graph graph;
  Opsets opsets;
  std::map<std::pair<std::string, std::string>, Function> functions;  // by domain and name
  std::string producer;
  std::map<std::string, std::string> properties;
};

// "" for both names of the standard's domain.
std::string plain_domain(const std::string& domain);

}  // namespace heddle::onnx
