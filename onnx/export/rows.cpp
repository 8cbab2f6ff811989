#include "heddle/onnx/export/rows.h"

#include <algorithm>

#include "heddle/core/graph/node.h"

namespace heddle::onnx {

// What the lines name, declared.
#define HEDDLE_EXPORT(row, first, takes, expression)
#define HEDDLE_EXPORT_EXACT(row, first, takes, expression)
#define HEDDLE_EXPORT_BUILT(row, builder) \
  namespace write {                       \
  void builder(RowCall& c);               \
  }
#define HEDDLE_EXPORT_COMPOSITE(name, first, builder) HEDDLE_EXPORT_BUILT(name, builder)
#include "heddle/onnx/export/rows.inc"
#undef HEDDLE_EXPORT
#undef HEDDLE_EXPORT_EXACT
#undef HEDDLE_EXPORT_BUILT
#undef HEDDLE_EXPORT_COMPOSITE

namespace {

constexpr ExportRow table[] = {
#define HEDDLE_EXPORT(row, first, takes, expression) {#row, false, first, Takes::takes, expression, false, nullptr},
#define HEDDLE_EXPORT_EXACT(row, first, takes, expression) \
  {#row, false, first, Takes::takes, expression, true, nullptr},
#define HEDDLE_EXPORT_BUILT(row, builder) {#row, false, 17, Takes::any, nullptr, false, &write::builder},
#define HEDDLE_EXPORT_COMPOSITE(name, first, builder) {#name, true, first, Takes::any, nullptr, false, &write::builder},
#include "heddle/onnx/export/rows.inc"
#undef HEDDLE_EXPORT
#undef HEDDLE_EXPORT_EXACT
#undef HEDDLE_EXPORT_BUILT
#undef HEDDLE_EXPORT_COMPOSITE
};

bool takes(Takes what, DType t) {
  switch (what) {
    case Takes::any:
      return true;
    case Takes::floats:
      return is_float(t);
    case Takes::wide:
      return is_float(t) && !is_half(t);
    case Takes::integers:
      return is_integer(t);
    case Takes::boolean:
      return t == DType::boolean;
  }
  return false;
}

bool is_wide(DType t) { return takes(Takes::wide, t); }

// Queries that see no key have a result here and none there.
bool plain_attention(const Composite& note) {
  const heddle::Node &q = *note.inputs[0], &k = *note.inputs[1];
  const bool own_scale = note.ints[1] != 0, causal = note.ints[0] != 0;
  return is_wide(q.dtype) && !own_scale && q.shape[1] == k.shape[1] && q.shape[3] > 0 &&
         (!causal || q.shape[2] == k.shape[2]) && (!causal || !note.inputs[4]) && !(note.inputs[3] && note.inputs[4]);
}

}  // namespace

std::span<const ExportRow> export_rows() { return table; }

const ExportRow* find_export_row(std::string_view name, bool composite, int opset, DType first_input) {
  for (const ExportRow& row : table) {
    if (row.name == name && row.composite == composite && opset >= row.first && takes(row.takes, first_input))
      return &row;
  }
  return nullptr;
}

bool keeps_composite(const Composite& note, int opset) {
  const DType t = note.result->dtype;
  if (!find_export_row(note.name, true, opset, t)) return false;
  for (const NodePtr& input : note.inputs) {
    if (input && input->dtype != t && input->dtype != DType::boolean) return false;
  }
  // Attributes are f32: what is no f32 would be another number in f64.
  if (t == DType::f64 && static_cast<double>(static_cast<float>(note.real)) != note.real)
    return note.name == "attention" && plain_attention(note);
  if (note.name == "linear") return note.inputs[1]->shape.rank() == 2 && is_wide(t);
  if (note.name == "mean") return is_wide(t) && note.inputs[0]->shape.rank() > 0;
  return note.name != "attention" || plain_attention(note);
}

std::vector<std::string> parameters_of(size_t count) {
  static const std::vector<std::string> names{"x", "y", "z", "u", "w"};
  return {names.begin(), names.begin() + static_cast<ptrdiff_t>(count)};
}

void RowCall::lacks(const std::string& what) {
  writer.lacking(what);
  out("lacking");
}

}  // namespace heddle::onnx
