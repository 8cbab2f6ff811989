// Report: what of a model cannot run, before anything runs.
//
// Purpose: all nodes are looked at, those of subgraphs and of functions that are called among them: ops and opsets that
// the table lacks, attributes that a row does not understand, types that no tensor has. Thread safety: pure.
#pragma once

#include <string>
#include <vector>

#include "heddle/onnx/walk.h"

namespace heddle::onnx {

struct UnsupportedOp {
  std::string op;                  // "domain.Name" for domains beside the standard's
  std::vector<std::string> nodes;  // their names
  int opset = 0;
  std::string needs;  // what would let them run
};

struct Report {
  std::vector<Port> inputs, outputs;
  Opsets opsets;
  size_t nodes = 0;
  std::vector<UnsupportedOp> unsupported;  // ordered by op
  std::vector<std::string> waits;          // nodes whose results are sized by values: the host waits there
  bool runs() const { return unsupported.empty(); }
  // One line an op: "Name (opset 13): needs; 2 nodes: a, b".
  std::string text() const;
};

Report report_on(const ModelFile& model, const CustomOps& custom = {});

}  // namespace heddle::onnx
