// KernelBuffers: which memory a kernel binds, under which names and with which access.
//
// Purpose: vertices that lie in the same memory share a binding. Since kernels are written twice (once to learn how
// they index), it also knows how memory was used the first time. Thread safety: none.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"

namespace heddle {

class KernelBuffers {
 public:
  explicit KernelBuffers(const ScheduledGraph& scheduled) : scheduled_(scheduled) {}

  // Where the vertex lies.
  SlotRef location(int id) const;
  // The number of the binding; access adds up. Memory that is read as two dtypes has two bindings, which may alias.
  size_t bind(SlotRef slot, DType dtype, Access access);
  const std::string& name(size_t buffer) const { return buffers_[buffer].name; }
  // Of the first writing: whether no buffer of the slot was written; whether none was read.
  bool was_only_read(SlotRef slot) const;
  bool was_only_written(SlotRef slot) const;
  // Forgets the bindings, but not how they were used.
  void start_over();

  const std::vector<BufferParam>& buffers() const { return buffers_; }
  const std::vector<SlotRef>& slots() const { return slots_; }

 private:
  const ScheduledGraph& scheduled_;
  std::vector<BufferParam> buffers_;
  std::vector<SlotRef> slots_;
  std::vector<std::pair<SlotRef, Access>> learnt_;
};

}  // namespace heddle
