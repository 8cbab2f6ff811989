#include "heddle/core/memory/loop_places.h"

#include <stdexcept>

namespace heddle {

Binding LoopPlaces::locate(int slot, int64_t iteration, const std::vector<Binding>& outer) const {
  const auto outer_binding = [&](int b) -> const Binding& { return outer[static_cast<size_t>(b)]; };
  const Slot* at = &slots[static_cast<size_t>(slot)];
  for (; at->kind == Slot::Kind::carried; --iteration) {
    if (iteration == 0) return outer_binding(at->binding);
    at = &slots[static_cast<size_t>(at->source)];
  }
  const int64_t slice = reverse ? length - 1 - iteration : iteration;
  switch (at->kind) {
    case Slot::Kind::whole:
      return outer_binding(at->binding);
    case Slot::Kind::row: {
      const Binding& all = outer_binding(at->binding);
      return {all.buffer, all.offset + static_cast<uint64_t>(slice + at->row_shift) * at->bytes, at->bytes};
    }
    case Slot::Kind::in_turn: {
      if (at->binding >= 0 && iteration + 1 == length) return outer_binding(at->binding);
      const Binding& all = outer_binding(workspace);
      return {all.buffer, all.offset + at->place + static_cast<uint64_t>(iteration % 2) * at->bytes, at->bytes};
    }
    case Slot::Kind::carried:
    case Slot::Kind::unused:
      break;
  }
  throw std::logic_error("[loop] a kernel of a loop reads what has no place");
}

}  // namespace heddle
