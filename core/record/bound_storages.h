// The storages of a capture: which slot each has, and from which byte on it is bound.
//
// Purpose: a batch of a data set on the device is a view at an offset. The part of it that a binding can take is no
// part of the plan, so that all batches share one. Invariants: slots are numbered as they are asked for. Thread safety:
// none.
#pragma once

#include <span>
#include <unordered_map>

#include "heddle/core/ir/ir.h"

namespace heddle {

class BoundStorages {
 public:
  // `written`: leaves (or null) whose storages are updated in place; those are bound whole.
  BoundStorages(Capture& capture, std::span<Node* const> written);
  // Fills Capture::storages and Capture::bases.
  int slot(const StoragePtr& storage);

 private:
  Capture& capture_;
  std::unordered_map<const Storage*, int> slots_;
  std::unordered_map<const Storage*, uint64_t> bases_;  // of storages with a view that does not begin at their start
};

}  // namespace heddle
