#include "heddle/core/lower/kernel_buffers.h"

#include <fmt/format.h>

#include <algorithm>

namespace heddle {

SlotRef KernelBuffers::location(int id) const {
  const IrNode& node = scheduled_.graph.nodes[id];
  if (node.leaf >= 0) {
    const LeafInfo& leaf = scheduled_.graph.leaves[node.leaf];
    return leaf.slot >= 0 ? SlotRef{SlotRef::Kind::input, leaf.slot} : SlotRef{SlotRef::Kind::host, 0};
  }
  if (const auto part = scheduled_.placed.find(id); part != scheduled_.placed.end()) return location(part->second.join);
  const int assigned = scheduled_.assigned_slot(id);
  return assigned >= 0 ? SlotRef{SlotRef::Kind::input, assigned} : SlotRef{SlotRef::Kind::vertex, id};
}

size_t KernelBuffers::bind(SlotRef slot, DType dtype, Access access) {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (slots_[i] != slot || buffers_[i].dtype != dtype) continue;
    if (buffers_[i].access != access) buffers_[i].access = Access::read_write;
    return i;
  }
  bool shared = false;
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (slots_[i] == slot) shared = buffers_[i].may_alias = true;
  }
  buffers_.push_back({fmt::format("t_b{}", buffers_.size()), dtype, access, shared});
  slots_.push_back(slot);
  return buffers_.size() - 1;
}

bool KernelBuffers::was_only_read(SlotRef slot) const {
  return std::none_of(learnt_.begin(), learnt_.end(),
                      [&](const auto& use) { return use.first == slot && use.second != Access::read; });
}

bool KernelBuffers::was_only_written(SlotRef slot) const {
  return std::none_of(learnt_.begin(), learnt_.end(),
                      [&](const auto& use) { return use.first == slot && use.second != Access::write; });
}

void KernelBuffers::start_over() {
  learnt_.clear();
  for (size_t i = 0; i < buffers_.size(); ++i)
    learnt_.emplace_back(slots_[i], buffers_[i].may_alias ? Access::read_write : buffers_[i].access);
  buffers_.clear();
  slots_.clear();
}

}  // namespace heddle
