// The table of rows: how each row of the op table (core/op) and each composite (core/graph/composite.h) is written.
//
// Purpose: `rows.inc` has one line for an op; an elementwise one is an expression (expression.h), others are a builder
// that is declared by its line. The first line whose opset and types fit holds. Invariants: a row that has no line is
// reported by its name, never left out. Thread safety: the table is immutable.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/graph/composite.h"
#include "heddle/onnx/export/writer.h"

namespace heddle::onnx {

// A vertex under way, as builders see it.
class RowCall {
 public:
  RowCall(Writer& to, Level& at, const Vertex& of) : writer(to), level(at), vertex(of) {}

  size_t count() const { return vertex.inputs.size(); }
  bool given(size_t i) const { return i < count() && vertex.inputs[i] >= 0; }
  const Vertex& in(size_t i) const { return level.recorded.vertices[index(i)]; }
  const Given& lazy(size_t i) const { return level.values[index(i)]; }
  std::string full(size_t i) { return writer.full(level, lazy(i), in(i).shape); }
  int axis() const { return static_cast<int>(vertex.ints[0].number()); }
  int rank(size_t i) const { return static_cast<int>(in(i).shape.size()); }
  std::vector<int64_t> numbers() const { return numbers_of(vertex.ints); }

  std::string node(const std::string& op, std::vector<std::string> inputs,
                   std::map<std::string, Attribute> attributes = {}) {
    return writer.node(level, op, std::move(inputs), std::move(attributes));
  }
  void out(std::string name) { result = {std::move(name), vertex.shape}; }
  void out(Given value) { result = std::move(value); }
  // The report has it; the value is a stand-in.
  void lacks(const std::string& what);

  Writer& writer;
  Level& level;
  const Vertex& vertex;
  Given result;

 private:
  size_t index(size_t i) const { return static_cast<size_t>(vertex.inputs[i]); }
};

enum class Takes : uint8_t { any, floats, wide, integers, boolean };  // wide: f32 and f64; of the first input

struct ExportRow {
  std::string_view name;
  bool composite;
  int first;  // opset
  Takes takes;
  const char* expression;  // null: there is a builder
  bool exact;              // the expression gives the row's bits, and needs no function
  void (*build)(RowCall& call);
};

std::span<const ExportRow> export_rows();
// Null where none fits.
const ExportRow* find_export_row(std::string_view name, bool composite, int opset, DType first_input);
// Whether a composite has a row, and what it was called with can be said by that.
bool keeps_composite(const Composite& note, int opset);

// Names of the parameters in expressions.
std::vector<std::string> parameters_of(size_t count);

}  // namespace heddle::onnx
