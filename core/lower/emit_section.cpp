// A section of a group (core/lower/section.h): where its indices begin, what is bound, which rows a take finds there.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/lower/emit.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

Path Emitter::in_section(Path path) const {
  if (section_ == nullptr) return path;
  for (Index& index : path.base) {
    int64_t first = 0;
    for (const auto& [variable, coefficient] : index.terms) first += coefficient * section_->first_of(variable);
    index.constant += first;
  }
  return path;
}

// The element of the vertex's memory that its kernel stores, of all the memory.
Index Emitter::stored_at(int id) const {
  const auto part = scheduled_.placed.find(id);
  Index at = Index::literal(part == scheduled_.placed.end() ? 0 : part->second.offset);
  if (section_ == nullptr) return at;
  Shape shape = group_.domain;
  if (const Member* member = group_.find(id); member != nullptr && member->level == Level::full)
    for (int64_t d : group_.inner) shape.push_back(d);
  const auto strides = row_major_strides(shape);
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    at.terms.push_back({d, strides[static_cast<size_t>(d)]});
    at.constant += section_->first_of(d) * strides[static_cast<size_t>(d)];
  }
  return at;
}

int64_t Emitter::section_offset(int id) const {
  const int64_t at = stored_at(id).constant;
  if (section_ == nullptr) return at;
  return at - section_->skipped(buffers_.location(id), static_cast<int64_t>(size_of(graph().nodes[id].dtype)));
}

// An index into a slot's memory as one into what is bound of it.
Index Emitter::from_binding(Index at, SlotRef slot, DType dtype) {
  if (section_ == nullptr) return at;
  const auto bytes = static_cast<int64_t>(size_of(dtype));
  if (section_->touched != nullptr) section_->touched->touches.push_back({slot, bytes, at});
  return at.plus(-section_->skipped(slot, bytes));
}

// The row that a take reads as a variable of the section: its rows, or those of them that are bound. Elements whose row
// is not there belong to another section.
Index Emitter::picked_row(int id, const std::string& row, int64_t rows) {
  const int variable = section_->touched->pick_variable(id);
  section_->touched->extents[variable] = rows;
  const auto copies = [&](const Member& m) { return copies_pick(m) && graph().nodes[m.node].inputs[0] == id; };
  if (group_.kind == GroupKind::elementwise && std::any_of(group_.members.begin(), group_.members.end(), copies))
    section_->touched->divisible.insert(variable);
  if (names.size() <= static_cast<size_t>(variable)) names.resize(static_cast<size_t>(variable) + 1);
  const auto part = section_->size.find(variable);
  if (part == section_->size.end()) {
    names[static_cast<size_t>(variable)] = row;
    return Index::variable(variable);
  }
  const int64_t first = section_->first_of(variable);
  const std::string at = local(fmt::format("{} - {}", row, constant(first))), count = constant(part->second),
                    last = constant(part->second - 1);
  picked_[id] = fmt::format("{} >= 0 && {} < {}", at, at, count);
  names[static_cast<size_t>(variable)] = local(fmt::format("min(max({}, 0), {})", at, last));
  return Index::variable(variable).plus(first);
}

bool Emitter::copies_pick(const Member& member) const {
  const IrNode& node = graph().nodes[member.node];
  if (section_ == nullptr || node.op != &copy_op) return false;
  const OpDef* of = graph().nodes[node.inputs[0]].op;
  return of == &ops::take_op || of == &ops::gather_op;
}

// Whether the section's elements follow each other in memory: only the outermost dimension is cut.
bool Emitter::has_whole_rows() const {
  if (section_ == nullptr) return true;
  int d = 0;
  while (d < group_.domain.rank() && group_.domain[d] == 1) ++d;
  return std::all_of(section_->size.begin(), section_->size.end(),
                     [&](const auto& part) { return part.first <= d || part.first >= group_.domain.rank(); });
}

std::string Emitter::if_picked(const std::string& statement) const {
  std::string all;
  for (const auto& [take, here] : picked_) all += (all.empty() ? "" : " && ") + here;
  return all.empty() ? statement : fmt::format("if ({}) {{ {} }}", all, statement);
}

}  // namespace heddle
