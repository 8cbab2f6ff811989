#include "heddle/onnx/op_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <vector>

#include "heddle/onnx/export.h"
#include "heddle/onnx/export/rows.h"
#include "heddle/onnx/op.h"

namespace heddle::onnx {
namespace {

constexpr const char* head = R"(# ONNX models

Made by `heddle import --ops` from `onnx/ops/*.inc` and `onnx/export/rows.inc`; a test fails when this file is stale
(`heddle import --ops > docs/onnx.md` mends it).

`heddle import net.onnx` says what a model takes and gives and names every node that cannot run, before anything runs;
`heddle run net.onnx --input x=x.npy --output out` runs it. `heddle import net.onnx -o net.heddle` makes one file of the
model and the files of its weights, which runs alike (`onnx/package.h`). `onnx::load()` (`onnx/import.h`) is the same in
C++, and can be called inside `compile()`. There is no executor for it: a call goes through the graph and calls the
public functions (`docs/ops.md`).

- **opsets**: from the first to the last for which the row holds; without a last one the op did not change up to opset
  {}. The table is meant for opsets from 6 on; of older ones it has what did not change.
- **attributes**: a name alone takes any value; a node with another attribute, or another value than those that are
  listed, is reported.
- **folded**: computed on the host where all inputs are known there, as in the arithmetic of shapes.
- **types**: float, float16, bfloat16, double, bool, and integers of 8 to 64 bits, signed and unsigned. uint16, int16 and
  uint32 are held in the next wider signed dtype, uint64 in the bits of int64. Texts, complex numbers, 8-bit floats and
  4-bit integers are reported.
- **functions** that the file defines are expanded; other domains' ops can be given as C++ functions
  (`LoadOptions::custom`).
- `NonZero`, `Compress`, `Unique` and `NonMaxSuppression` give results whose size depends on values: the host waits for
  the device there. So it does where a shape depends on a value that only the device knows.
- Integers of quantised ops are multiplied exactly; random ops draw Heddle's numbers, not NumPy's.

| op | opsets | attributes | folded |
|---|---|---|---|
)";

constexpr const char* export_head = R"(
## Export

`heddle export runs/mnist-cnn -o digits.onnx` writes a trained model, `onnx::save()` (`onnx/export.h`) any function of
tensors, at opset {} to {}. `bench/onnx_export_check.py` holds all models and recipes against ONNX's checker and ONNX
Runtime. What takes several ops is a function of the file in domain `heddle`, which `onnx::load()` gives back as the
row, with its bits; with `--plain`, and where `inline` is said, its nodes stand in the place of the call. A row that is
not here is named, with its count, and nothing is written. Made from `onnx/export/rows.inc`:

| row | opset | types | written as | |
|---|---|---|---|---|
)";

std::string_view name_of_types(Takes takes) {
  switch (takes) {
    case Takes::floats:
      return "floats";
    case Takes::wide:
      return "f32, f64";
    case Takes::integers:
      return "integers";
    case Takes::boolean:
      return "bool";
    case Takes::any:
      break;
  }
  return "";
}

std::string export_page() {
  std::string page = fmt::format(fmt::runtime(export_head), first_exported_opset, last_exported_opset);
  for (const ExportRow& row : export_rows()) {
    const std::string as = row.expression  ? fmt::format("`{}`", row.expression)
                           : row.composite ? "its several nodes as one op"
                                           : "one op, or a few";
    page += fmt::format("| `{}` | {}- | {} | {} | {} |\n", row.name, row.first, name_of_types(row.takes), as,
                        row.exact ? "inline" : "");
  }
  return page;
}

std::string opsets_of(const Op& op) {
  if (op.last == 0) return fmt::format("{}-", op.first);
  return op.first == op.last ? std::to_string(op.first) : fmt::format("{}-{}", op.first, op.last);
}

// Names, and values in brackets: "axis; mode (linear, nearest)".
std::string attributes_of(const Op& op) {
  std::string text;
  bool values = false;
  for (const char c : std::string(op.attributes) + ' ') {
    if (c == '=' || c == '|') text += c == '=' ? " (" : ", ";
    if (c == ' ') text += values ? "); " : "; ";
    values = c == ' ' ? false : values || c == '=';
    if (c != '=' && c != '|' && c != ' ') text += c;
  }
  while (text.ends_with(' ') || text.ends_with(';')) text.pop_back();
  return text;
}

}  // namespace

std::string op_page() {
  std::vector<const Op*> rows;
  std::set<std::string> names;
  for (const Op& op : op_table()) {
    if (op.domain == std::string_view(own_domain)) continue;
    rows.push_back(&op);
    names.insert(std::string(op.domain) + op.name);
  }
  std::ranges::stable_sort(rows, [](const Op* a, const Op* b) {
    const int order = std::string_view(a->domain).compare(b->domain);
    return order != 0 ? order < 0 : std::string_view(a->name) < b->name;
  });
  std::string page = fmt::format(fmt::runtime(head), newest_opset);
  for (const Op* op : rows) {
    page += fmt::format("| `{}{}{}` | {} | {} | {} |\n", op->domain, op->domain[0] == '\0' ? "" : ".", op->name,
                        opsets_of(*op), attributes_of(*op), op->fold ? "yes" : "");
  }
  return page + fmt::format("\n{} ops.\n", names.size()) + export_page();
}

}  // namespace heddle::onnx
