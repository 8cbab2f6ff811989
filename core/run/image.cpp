#include "heddle/core/run/image.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace heddle {
namespace {

size_t launches_of(const GraphImage& image, const GraphImage::Launch& launch) {
  if (launch.kind != GraphImage::Launch::Kind::loop) return 1;
  const GraphImage::Loop& loop = image.loops[static_cast<size_t>(launch.index)];
  size_t one = 0;
  for (const GraphImage::Launch& inner : loop.body) one += launches_of(image, inner);
  const size_t turns = loop.is_chain() ? size_t{loop.places.length > 0} : static_cast<size_t>(loop.places.length);
  return one * turns + loop.places.fills.size();
}

template <class List>
bool within(int64_t index, const List& list) {
  return index >= 0 && index < static_cast<int64_t>(list.size());
}

// Looks at everything once; the first fault stays.
class Inspection {
 public:
  using Launch = GraphImage::Launch;
  using Place = GraphImage::Place;

  explicit Inspection(const GraphImage& image) : image_(image) {}

  std::string run() {
    for (const GraphImage::Kernel& each : image_.kernels) kernel(each);
    for (size_t l = 0; l < image_.loops.size(); ++l) loop(l);
    for (const Launch& each : image_.launches) launch(each, nullptr, image_.loops.size());
    if (fault_.empty() && commands_of(image_.launches) > most_commands) fault("a run has too many launches");
    for (int32_t before = 0; const int32_t cut : image_.cuts) {
      if (cut <= std::exchange(before, cut) || !within(cut, image_.launches))
        fault("a segment is empty or not in order");
    }
    for (const GraphImage::CopyBack& copy : image_.copies) {
      place(copy.from, nullptr);
      if (!within(copy.slot, image_.input_bytes)) fault("a copy goes to an input that is not there");
    }
    for (const GraphImage::Output& output : image_.outputs) out(output);
    for (const int32_t slot : image_.assigned) {
      if (!within(slot, image_.input_bytes)) fault("an input that is not there is assigned");
    }
    if (image_.once.size() > 1) fault("more than one part is computed once");
    for (const GraphImage& once : image_.once) {
      if (fault_.empty()) fault_ = image_fault(once);
      if (!once.once.empty()) fault("what is computed once has such a part itself");
      if (once.input_bytes.size() + once.outputs.size() != image_.input_bytes.size())
        fault("what is computed once gives another number of inputs");
    }
    const size_t given = image_.input_bytes.size() - (image_.once.empty() ? 0 : image_.once[0].outputs.size());
    for (const int32_t slot : image_.once_slots) {
      if (slot < 0 || static_cast<size_t>(slot) >= given)
        fault("what is computed once reads an input that is not there");
    }
    return fault_;
  }

 private:
  void fault(std::string_view text) {
    if (fault_.empty()) fault_ = text;
  }

  void kernel(const GraphImage::Kernel& at) {
    if (!at.source && !at.is_compiled()) fault("a kernel is neither text nor code");
    if (at.source && signature_of(*at.source) != at.signature()) fault("the text of a kernel is that of another");
    if (fault_.empty()) fault_ = binary_fault(at.binary);
  }

  // `loop`: the one whose body this is in.
  void place(const Place& at, const GraphImage::Loop* loop) {
    switch (at.kind) {
      case Place::Kind::input:
        if (loop != nullptr ? !within(at.index, loop->places.slots) : !within(at.index, image_.input_bytes))
          fault("a launch is bound to an input that is not there");
        else if (loop == nullptr)
          part(at, image_.input_bytes[static_cast<size_t>(at.index)]);
        return;
      case Place::Kind::host:
        if (image_.host_values <= 0) fault("a launch is bound to host values, and there are none");
        return;
      case Place::Kind::own:
        if (loop != nullptr || !within(at.index, image_.own_bytes))
          fault("a launch is bound to a result that is not there");
        else
          part(at, image_.own_bytes[static_cast<size_t>(at.index)]);
        return;
      case Place::Kind::arena: {
        if (loop != nullptr) {
          if (loop->places.workspace < 0) fault("a loop without a workspace has temporaries");
          return;
        }
        const bool there = within(at.index, image_.arena_bytes);
        const uint64_t block = there ? image_.arena_bytes[static_cast<size_t>(at.index)] : 0;
        if (at.offset > block || at.bytes > block - at.offset) fault("a temporary lies outside of its block");
        return;
      }
    }
  }

  void part(const Place& at, uint64_t all) {
    if (at.offset > all || at.bytes > all - at.offset) fault("a launch is bound to more than there is");
  }

  void places(const std::vector<Place>& all, const GraphImage::Loop* loop) {
    for (const Place& each : all) place(each, loop);
  }

  // Loops of a body come before it, so none contains itself.
  void launch(const Launch& at, const GraphImage::Loop* loop, size_t loops) {
    places(at.places, loop);
    switch (at.kind) {
      case Launch::Kind::loop:
        if (at.index < 0 || static_cast<size_t>(at.index) >= loops) return fault("a loop is not there");
        return outer_bindings(image_.loops[static_cast<size_t>(at.index)].places, at.places.size());
      case Launch::Kind::to_host:
      case Launch::Kind::from_host:
        if (at.places.size() != 1 || loop != nullptr) return fault("a transfer moves one value, outside of loops");
        if (at.host_offset > image_.host_bytes || at.places[0].bytes > image_.host_bytes - at.host_offset)
          fault("a transfer goes beyond the host's memory");
        return;
      case Launch::Kind::kernel:
      case Launch::Kind::joined:
        break;
    }
    if (!within(at.index, image_.kernels)) return fault("a kernel is not there");
    const KernelSignature& kernel = image_.kernels[static_cast<size_t>(at.index)].signature();
    if (at.kind == Launch::Kind::kernel) {
      if (at.places.size() != kernel.buffers.size() || at.constants.size() != kernel.constants)
        fault("a launch has another number of buffers or constants than its kernel");
      return;
    }
    if (at.joined.empty() || kernel.buffers.empty()) return fault("a joined launch has no rows");
    if (at.workers > 0 && (at.joined.size() != 1 || at.joined[0].groups != 1 || at.workers > 255))
      fault("a chain has several rows, or too many workers");
    const size_t own = at.workers > 1 ? 2 : 1;  // buffers that the table fills
    for (const GraphImage::JoinedRow& row : at.joined) {
      places(row.places, loop);
      if (row.groups <= 0 || row.places.size() + own != kernel.buffers.size() ||
          row.constants.size() != at.joined[0].constants.size())
        fault("a joined row does not fit its kernel");
    }
  }

  void outer_bindings(const LoopPlaces& loop, size_t outer) {
    const auto bound = [&](int b) { return b >= 0 && static_cast<size_t>(b) < outer; };
    for (const LoopPlaces::Slot& slot : loop.slots) {
      using Kind = LoopPlaces::Slot::Kind;
      const bool optional = slot.kind == Kind::unused || slot.kind == Kind::in_turn;
      if (!bound(slot.binding) && !(optional && slot.binding == -1)) fault("a slot of a loop is bound to nothing");
      if (slot.kind == Kind::carried && !within(slot.source, loop.slots)) fault("a carry comes from nowhere");
      const bool direct = slot.binding >= 0 && loop.length <= 1;  // the last iteration writes into the binding
      if (slot.kind == Kind::in_turn && !direct && !bound(loop.workspace)) fault("a loop has no workspace");
    }
    for (const LoopPlaces::Fill& fill : loop.fills) {
      if (!bound(fill.from) || !bound(fill.to)) fault("a fill of a loop is bound to nothing");
    }
    if (loop.workspace >= 0 && !bound(loop.workspace)) fault("the workspace of a loop is bound to nothing");
  }

  void loop(size_t l) {
    const GraphImage::Loop& loop = image_.loops[l];
    if (loop.places.length < 0) fault("a loop has a negative length");
    for (const Launch& each : loop.body) launch(each, &loop, l);
    if (!fault_.empty()) return;
    const uint64_t turn = commands_of(loop.body), turns = static_cast<uint64_t>(loop.places.length);
    if (turns > most_commands || turn > most_commands || turn * turns + loop.places.fills.size() > most_commands)
      return fault("a loop has too many launches");
    commands_.push_back(turn * turns + loop.places.fills.size());
  }

  // Of one run of these launches; those of loops are counted.
  uint64_t commands_of(const std::vector<Launch>& launches) const {
    uint64_t sum = 0;
    for (const Launch& each : launches)
      sum += each.kind == Launch::Kind::loop ? commands_[static_cast<size_t>(each.index)] : 1;
    return sum;
  }

  void out(const GraphImage::Output& output) {
    const bool own = output.kind == GraphImage::Output::Kind::own;
    if (own ? !within(output.index, image_.own_bytes) : !within(output.index, image_.input_bytes))
      fault("an output lies in storage that is not there");
  }

  static constexpr uint64_t most_commands = uint64_t{1} << 24;  // of one recording: no loop takes for ever to record

  const GraphImage& image_;
  std::vector<uint64_t> commands_;  // of one run of each loop
  std::string fault_;
};

}  // namespace

size_t GraphImage::launch_count() const {
  size_t all = 0;
  for (const Launch& launch : launches) all += launches_of(*this, launch);
  return all;
}

std::string image_fault(const GraphImage& image) { return Inspection(image).run(); }

}  // namespace heddle
