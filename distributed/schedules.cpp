#include "heddle/distributed/schedules.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "heddle/core/base/integers.h"

namespace heddle::distributed {
namespace {

using Bytes = std::span<std::byte>;

// Pieces of each other rank that may wait to be reduced, of so many bytes together: what comes before MPI is asked for
// it is kept by MPI, and copied.
constexpr size_t least_slots = 4, most_slots = 16, slots_bytes = size_t{1} << 20;
constexpr size_t sends_at_a_time = 16;  // pieces under way to each other rank

// Messages are never written through, but a task has one kind of bytes.
Bytes bytes_of(const std::byte* from, size_t count) { return {const_cast<std::byte*>(from), count}; }

class Builder {
 public:
  Builder(const Call& call, const Members& members, const Buffers& buffers, Scratch& scratch, size_t piece_bytes)
      : call_(call),
        members_(members),
        buffers_(buffers),
        scratch_(scratch),
        width_(size_of(call.dtype)),
        piece_(std::max<size_t>(piece_bytes / width_, 1)),
        slots_at_a_time_(std::clamp(slots_bytes / piece_bytes, least_slots, most_slots)),
        elements_(static_cast<size_t>(call.shape.numel())) {}

  Exchange build() {
    switch (call_.operation) {
      case Operation::all_reduce:
        all_reduce();
        break;
      case Operation::reduce_scatter:
        call_.sizes.empty() ? reduce_scatter() : static_cast<void>(reduce_parts());
        break;
      case Operation::all_gather:
        call_.sizes.empty() ? swap_parts(0) : gather_parts({});
        break;
      case Operation::all_to_all:
        swap_parts(elements_ * width_);
        break;
      case Operation::broadcast:
        broadcast();
        break;
      case Operation::send:
        send_all(peer_of_pair(), 0, buffers_.input, elements_);
        break;
      case Operation::receive:
        receive_all(peer_of_pair(), 0, buffers_.output, elements_);
        break;
      case Operation::barrier:
        break;  // the comparison of calls is one
    }
    return std::move(exchange_);
  }

 private:
  using Place = Exchange::Place;

  size_t me() const { return members_.me; }
  size_t count() const { return members_.count(); }
  int rank(size_t member) const { return members_.ranks[member]; }
  // The others, beginning behind this one, so that not all send to the same rank first.
  std::vector<size_t> others() const {
    std::vector<size_t> found;
    for (size_t step = 1; step < count(); ++step) found.push_back((me() + step) % count());
    return found;
  }
  size_t peer_of_pair() const { return me() == 0 ? 1 : 0; }

  // Elements of a member's part.
  struct Part {
    size_t first, size;
  };
  Part part_of(size_t member) const {
    if (!call_.sizes.empty()) {
      const auto from = call_.sizes.begin(), own = from + static_cast<std::ptrdiff_t>(member);
      return {static_cast<size_t>(std::accumulate(from, own, int64_t{0})), static_cast<size_t>(*own)};
    }
    const size_t first = elements_ / count() * member + std::min(elements_ % count(), member);
    return {first, elements_ / count() + (member < elements_ % count() ? 1 : 0)};
  }
  size_t pieces(size_t elements) const { return ceil_div(elements, piece_); }
  // A piece of `elements` that begin at `base`.
  Bytes piece(const std::byte* base, size_t elements, size_t number) const {
    const size_t first = number * piece_;
    return bytes_of(base + first * width_, std::min(piece_, elements - first) * width_);
  }

  // The task of its number, where there are any.
  static Place task_of(const std::vector<Place>& tasks, size_t k) { return tasks.empty() ? Exchange::none : tasks[k]; }
  // A send waits for the one sends_at_a_time before it, and for the task of its number; gives the places of all.
  std::vector<Place> send_all(size_t member, int lane, const std::byte* base, size_t elements,
                              const std::vector<Place>& after = {}) {
    std::vector<Place> sent;
    for (size_t k = 0; k < pieces(elements); ++k) {
      const Place before = k >= sends_at_a_time ? sent[k - sends_at_a_time] : Exchange::none;
      sent.push_back(exchange_.send(rank(member), lane, piece(base, elements, k), {before, task_of(after, k)}));
    }
    return sent;
  }
  // A receive waits for the task of its number.
  std::vector<Place> receive_all(size_t member, int lane, std::byte* base, size_t elements,
                                 const std::vector<Place>& after = {}) {
    std::vector<Place> received;
    for (size_t k = 0; k < pieces(elements); ++k)
      received.push_back(exchange_.receive(rank(member), lane, piece(base, elements, k), {task_of(after, k)}));
    return received;
  }
  void copy(std::byte* to, const std::byte* from, size_t bytes) {
    if (to == from || bytes == 0) return;
    exchange_.work([=] { std::memcpy(to, from, bytes); });
  }

  // Where pieces of the others, of so many elements, wait to be reduced: by turn, then by member.
  void make_slots(size_t elements) {
    const size_t turns = std::min(slots_at_a_time_, pieces(elements));
    scratch_.slots.resize(slots_at_a_time_ * count());
    for (size_t i = 0; i < turns * count(); ++i) scratch_.slots[i].resize(std::min(piece_, elements) * width_);
  }
  std::byte* slot(size_t turn, size_t member) {
    return scratch_.slots[turn % slots_at_a_time_ * count() + member].data();
  }

  // The part that is in `mine` is reduced there with what the others send; gives the place of each piece's end.
  std::vector<Place> reduce_part(std::byte* mine, size_t elements) {
    std::vector<Place> done;
    for (size_t k = 0; k < pieces(elements); ++k) {
      const Place before = k >= slots_at_a_time_ ? done[k - slots_at_a_time_] : Exchange::none;
      const Bytes target = piece(mine, elements, k);
      std::vector<void*> sources(count());
      sources[me()] = target.data();
      std::vector<Place> received;
      for (const size_t other : others()) {
        sources[other] = slot(k, other);
        received.push_back(exchange_.receive(rank(other), 0, {slot(k, other), target.size()}, {before}));
      }
      done.push_back(exchange_.work(
          [reduction = call_.reduction, dtype = call_.dtype, sources, target, elements = target.size() / width_,
           &wide = scratch_.wide] { reduce(reduction, dtype, sources, target.data(), elements, wide); }));
      for (const Place place : received) exchange_.wait(done.back(), place);
    }
    return done;
  }

  std::byte* place_of(size_t member) const { return buffers_.output + part_of(member).first * width_; }

  // What is sent of each other's part, and this one's when it is reduced.
  struct Reduced {
    std::vector<std::vector<Place>> sent;
    std::vector<Place> mine;
  };
  Reduced reduce_parts() {
    if (count() == 1) return {std::vector<std::vector<Place>>(1), {}};
    make_slots(part_of(me()).size);
    Reduced places{std::vector<std::vector<Place>>(count()), {}};
    for (const size_t other : others()) places.sent[other] = send_all(other, 0, place_of(other), part_of(other).size);
    places.mine = reduce_part(place_of(me()), part_of(me()).size);
    return places;
  }
  // What is received takes the place of what was sent.
  void gather_parts(const Reduced& before) {
    for (const size_t other : others()) {
      send_all(other, 1, place_of(me()), part_of(me()).size, before.mine);
      receive_all(other, 1, place_of(other), part_of(other).size,
                  before.sent.empty() ? std::vector<Place>() : before.sent[other]);
    }
  }
  void all_reduce() { gather_parts(reduce_parts()); }

  void reduce_scatter() {
    make_slots(elements_);
    std::byte* const mine = buffers_.output;
    const size_t bytes = elements_ * width_;
    if (bytes > 0) std::memcpy(mine, buffers_.input + me() * bytes, bytes);
    for (const size_t other : others()) send_all(other, 0, buffers_.input + other * bytes, elements_);
    reduce_part(mine, elements_);
  }
  // Every member gets the part of the input that lies `stride` bytes behind that of the member before it: 0 where all
  // get the same.
  void swap_parts(size_t stride) {
    const size_t bytes = elements_ * width_;
    copy(buffers_.output + me() * bytes, buffers_.input + me() * stride, bytes);
    for (const size_t other : others()) {
      send_all(other, 0, buffers_.input + other * stride, elements_);
      receive_all(other, 0, buffers_.output + other * bytes, elements_);
    }
  }

  // Lane 0: each its part from the root; lane 1: parts from who has them.
  void broadcast() {
    const auto root = static_cast<size_t>(call_.root);
    std::vector<Place> mine;
    if (me() == root) {
      for (const size_t other : others()) send_all(other, 0, place_of(other), part_of(other).size);
    } else {
      mine = receive_all(root, 0, place_of(me()), part_of(me()).size);
    }
    for (const size_t other : others()) {
      if (other != root) send_all(other, 1, place_of(me()), part_of(me()).size, mine);
      if (me() != root) receive_all(other, 1, place_of(other), part_of(other).size);
    }
  }

  const Call& call_;
  const Members& members_;
  const Buffers& buffers_;
  Scratch& scratch_;
  size_t width_, piece_, slots_at_a_time_, elements_;
  Exchange exchange_;
};

}  // namespace

Exchange schedule(const Call& call, const Members& members, const Buffers& buffers, Scratch& scratch,
                  size_t piece_bytes) {
  return Builder(call, members, buffers, scratch, piece_bytes).build();
}

}  // namespace heddle::distributed
