#include "core/memory/planned_loop.h"

#include <stdexcept>

namespace heddle {

Binding PlannedLoop::locate(int slot, int64_t iteration, const std::vector<Binding>& outer) const {
  const Slot& at = slots[static_cast<size_t>(slot)];
  const int64_t slice = reverse ? length - 1 - iteration : iteration;
  switch (at.kind) {
    case Slot::Kind::whole:
      return outer[static_cast<size_t>(at.binding)];
    case Slot::Kind::carried:
      return iteration == 0 ? outer[static_cast<size_t>(at.binding)] : locate(at.source, iteration - 1, outer);
    case Slot::Kind::row: {
      const Binding& all = outer[static_cast<size_t>(at.binding)];
      return {all.buffer, all.offset + static_cast<uint64_t>(slice + at.row_shift) * at.bytes, at.bytes};
    }
    case Slot::Kind::in_turn: {
      if (at.binding >= 0 && iteration + 1 == length) return outer[static_cast<size_t>(at.binding)];
      const Binding& all = outer[static_cast<size_t>(workspace)];
      return {all.buffer, all.offset + at.place + static_cast<uint64_t>(iteration % 2) * at.bytes, at.bytes};
    }
    case Slot::Kind::unused:
      break;
  }
  throw std::logic_error("[step] a kernel of a loop reads what has no place");
}

std::vector<Binding> PlannedLoop::bind(const std::vector<SlotRef>& refs, int64_t iteration,
                                       const std::vector<Binding>& outer, const Binding& host) const {
  std::vector<Binding> bindings;
  bindings.reserve(refs.size());
  for (const SlotRef& ref : refs) {
    if (ref.kind == SlotRef::Kind::host) {
      bindings.push_back(host);
    } else if (ref.kind == SlotRef::Kind::input) {
      bindings.push_back(locate(ref.index, iteration, outer));
    } else {
      const size_t life = body.memory.temporaries.at(ref.index);
      const Placement& place = body.memory.arena.placements[life];
      const Binding& all = outer[static_cast<size_t>(workspace)];
      bindings.push_back({all.buffer, all.offset + block_places[static_cast<size_t>(place.block)] + place.offset,
                          body.memory.lifetimes[life].bytes});
    }
  }
  return bindings;
}

size_t PlannedLoop::launches() const {
  size_t one = 0;
  for (const LoweredKernel& kernel : body.kernels) one += launches_of(kernel);
  return one * static_cast<size_t>(length) + fills.size();
}

size_t launches_of(const LoweredKernel& kernel) { return kernel.loop ? kernel.loop->launches() : 1; }

}  // namespace heddle
