// Builders of rows.inc: loops, as ONNX's Scan.
#include <algorithm>

#include "heddle/core/op/attrs.h"
#include "heddle/onnx/export/rows.h"

namespace heddle::onnx::write {

void loop(RowCall& c) {
  const Sizes& ints = c.vertex.ints;  // length, carries, slices, reverse, checkpoint
  const auto carries = static_cast<size_t>(ints[1].number()), slices = static_cast<size_t>(ints[2].number());
  if (!std::all_of(ints.begin() + 1, ints.end(), [](const Size& s) { return s.fixed(); }) || !c.vertex.body)
    return c.lacks("a loop whose form varies");
  const int number = static_cast<int>(&c.vertex - c.level.recorded.vertices.data());
  std::vector<int> stacked;  // values of the body that are asked for in every iteration
  for (const auto& asked : c.vertex.body->stacked) stacked.push_back(asked.first);
  std::vector<std::string> inputs;
  for (size_t i = 0; i < carries + slices; ++i) inputs.push_back(c.full(i));
  Graph body = c.writer.body(c.level, c.vertex, stacked);
  if (slices == 0) {  // Scan counts along what it is given
    const Given zero{c.writer.number(0, DType::boolean), {}};
    inputs.push_back(c.writer.full(c.level, zero, {ints[0]}));
    body.inputs.push_back({c.writer.fresh("slice"), PortKind::tensor, false, Type::boolean, std::vector<Dimension>()});
  }
  const size_t scanned = std::max<size_t>(slices, 1);
  std::map<std::string, Attribute> attributes{
      {"body", {std::shared_ptr<const Graph>(std::make_shared<Graph>(std::move(body)))}},
      {"num_scan_inputs", {static_cast<int64_t>(scanned)}}};
  if (ints[3].number() != 0) {
    attributes["scan_input_directions"] = {std::vector<int64_t>(scanned, 1)};
    attributes["scan_output_directions"] = {std::vector<int64_t>(stacked.size(), 1)};
  }
  c.level.loops[number] =
      c.writer.node(c.level, "Scan", std::move(inputs), std::move(attributes), carries + stacked.size());
  c.level.stacked[number] = stacked;
  c.out("loop");  // of itself it has no value
}

void loop_result(RowCall& c) {
  const int loop = c.vertex.inputs[0];
  const std::vector<std::string>& names = c.level.loops[loop];
  if (names.empty()) return c.out("lacking");
  const auto index = c.vertex.ints[1].number();
  if (c.vertex.ints[0].number() == 0) return c.out(names[static_cast<size_t>(index)]);
  const std::vector<int>& stacked = c.level.stacked[loop];
  const auto at = static_cast<size_t>(std::ranges::find(stacked, static_cast<int>(index)) - stacked.begin());
  c.out(names[names.size() - stacked.size() + at]);
}

}  // namespace heddle::onnx::write
