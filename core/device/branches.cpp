#include "heddle/core/device/branches.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>

namespace heddle {
namespace {

constexpr double launch_seconds = 5e-6, wait_seconds = 1e-5;

// Who touched the bytes of one buffer: disjoint ranges by their begin.
class Touches {
 public:
  // Adds what the access must come after to `before`, and remembers it.
  void touch(uint64_t begin, uint64_t end, bool writes, size_t command, std::set<size_t>& before) {
    split(begin);
    split(end);
    uint64_t at = begin;
    for (auto part = parts_.lower_bound(begin); part != parts_.end() && part->first < end; ++part) {
      if (part->first > at) fill(at, part->first, writes, command);
      Part& p = part->second;
      if (p.writer != none && p.writer != command) before.insert(p.writer);
      if (writes) {
        before.insert(p.readers.begin(), p.readers.end());
        before.erase(command);
        p.writer = command;
        p.readers.clear();
      } else if (p.readers.empty() || p.readers.back() != command) {
        p.readers.push_back(command);
      }
      at = p.end;
    }
    if (at < end) fill(at, end, writes, command);
  }

 private:
  static constexpr size_t none = ~size_t{0};
  struct Part {
    uint64_t end = 0;
    size_t writer = none;
    std::vector<size_t> readers;  // since it was written
  };

  void fill(uint64_t begin, uint64_t end, bool writes, size_t command) {
    Part& part = parts_[begin];
    part.end = end;
    if (writes)
      part.writer = command;
    else
      part.readers.push_back(command);
  }

  void split(uint64_t place) {
    auto part = parts_.lower_bound(place);
    if (part == parts_.begin()) return;
    --part;
    if (part->second.end <= place) return;
    Part rest = part->second;
    part->second.end = place;
    parts_.emplace(place, std::move(rest));
  }

  std::map<uint64_t, Part> parts_;
};

class Spreading {
 public:
  Spreading(const HandleLookup& lookup, uint32_t queues, size_t commands)
      : lookup_(lookup), queues_(queues), end_(queues, 0.0), known_(queues, std::vector<size_t>(queues, 0)) {
    out_.queues = queues;
    out_.waits.resize(commands);
    out_.awaited.resize(commands, false);
    out_.last.assign(queues, 0);
  }

  void add(size_t i, const Command& command) {
    std::set<size_t> before;
    touch_all(i, command, before);
    const uint32_t q = place(command, before);
    out_.queue.push_back(q);
    wait_for(i, q, before);
    out_.last[q] = i + 1;
    known_[q][q] = i + 1;
    known_at_.push_back(known_[q]);
  }

  Branches take() {
    if (std::count(out_.queue.begin(), out_.queue.end(), 0u) == static_cast<ptrdiff_t>(out_.queue.size()))
      out_.queues = 1;
    return std::move(out_);
  }

 private:
  void touch(const Binding& range, bool writes, size_t i, std::set<size_t>& before) {
    touches_[range.buffer].touch(range.offset, range.offset + range.size, writes, i, before);
  }

  void touch_all(size_t i, const Command& command, std::set<size_t>& before) {
    if (const auto* copy = std::get_if<Copy>(&command)) {
      touch(copy->src, false, i, before);
      touch(copy->dst, true, i, before);
    } else if (const auto* fill = std::get_if<Fill>(&command)) {
      touch(fill->dst, true, i, before);
    } else {
      const auto& dispatch = std::get<Dispatch>(command);
      const std::vector<BufferParam>& declared = lookup_.kernel(dispatch.kernel)->buffers;
      for (size_t b = 0; b < declared.size(); ++b) {
        if (declared[b].access != Access::write) touch(dispatch.bindings[b], false, i, before);
      }
      for (size_t b = 0; b < declared.size(); ++b) {
        if (declared[b].access != Access::read) touch(dispatch.bindings[b], true, i, before);
      }
    }
  }

  static double seconds_of(const Command& command) {
    constexpr double bytes_per_second = 1e10;
    if (const auto* copy = std::get_if<Copy>(&command))
      return launch_seconds + static_cast<double>(copy->src.size) / bytes_per_second;
    const auto* dispatch = std::get_if<Dispatch>(&command);
    return launch_seconds + (dispatch ? dispatch->seconds : 0);
  }

  uint32_t place(const Command& command, const std::set<size_t>& before) {
    uint32_t best = 0;
    double earliest = 0;
    for (uint32_t q = 0; q < queues_; ++q) {
      double start = end_[q];
      for (size_t d : before) {
        const bool waits = out_.queue[d] != q && d >= known_[q][out_.queue[d]];
        start = std::max(start, finish_[d] + (waits ? wait_seconds : 0));
      }
      if (q > 0 && start >= earliest) continue;
      best = q;
      earliest = start;
    }
    end_[best] = earliest + seconds_of(command);
    finish_.push_back(end_[best]);
    return best;
  }

  void wait_for(size_t i, uint32_t q, const std::set<size_t>& before) {
    for (auto d = before.rbegin(); d != before.rend(); ++d) {  // the latest first: it implies more
      const uint32_t other = out_.queue[*d];
      if (other == q || *d < known_[q][other]) continue;
      out_.waits[i].push_back(*d);
      out_.awaited[*d] = true;
      for (uint32_t p = 0; p < queues_; ++p) known_[q][p] = std::max(known_[q][p], known_at_[*d][p]);
    }
  }

  const HandleLookup& lookup_;
  uint32_t queues_;
  Branches out_;
  std::unordered_map<BufferId, Touches> touches_;
  std::vector<double> end_, finish_;  // by queue, by command: guessed
  std::vector<std::vector<size_t>>
      known_;  // by queue: commands before these, by queue, have finished when its next one starts
  std::vector<std::vector<size_t>> known_at_;  // by command: the same when it has finished
};

}  // namespace

Branches spread(std::span<const Command> commands, const HandleLookup& lookup, uint32_t queues) {
  Spreading spreading(lookup, std::max(queues, 1u), commands.size());
  for (size_t i = 0; i < commands.size(); ++i) spreading.add(i, commands[i]);
  return spreading.take();
}

}  // namespace heddle
