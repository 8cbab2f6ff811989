#include "heddle/train/buddy_copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "heddle/core/functions/functions.h"
#include "heddle/distributed/errors.h"
#include "heddle/io/safetensors_bytes.h"
#include "heddle/train/checked_file.h"
#include "heddle/train/prefix.h"
#include "heddle/train/state_pieces.h"

namespace heddle::train {
namespace {

constexpr int64_t nothing = -1;

Shape shape_of(const std::vector<uint8_t>& bytes) { return Shape{static_cast<int64_t>(bytes.size())}; }

// A view, so that no more is read than that.
Tensor elements_of(const Tensor& whole, const BuddyCopies::Cut& cut) {
  if (cut.end - cut.begin == whole.numel()) return whole;
  return slice(flatten(whole.detach()), 0, {.start = cut.begin, .stop = cut.end});
}

// What this rank has of the run that no other has, as the bytes of a safetensors file.
std::vector<uint8_t> own_part(const Checkpoint& checkpoint, const BuddyCopies::Cuts& cuts,
                              const std::vector<Optimizers::ShardState>& states) {
  Snapshot part({}, {});
  for (const Optimizers::ShardState& state : states)
    part.add_piece(std::string(optimizer_prefix) + state.name, state.whole, state.begin, state.values);
  for (const auto& [name, cut] : cuts) {
    const auto tensor = checkpoint.tensors.find(name);
    if (tensor != checkpoint.tensors.end() && cut.begin < cut.end)
      part.add_piece(name, tensor->second.shape(), cut.begin, elements_of(tensor->second, cut));
  }
  return part.bytes();
}

// ---- what ranks that are left have together

// Of one copy.
struct Held {
  int64_t number = nothing, owner = nothing, owner_before = nothing, owners = 0;
};
constexpr size_t numbers_of_copy = 4, most_copies = 2;

// By rank.
std::vector<std::vector<Held>> gather(Replicas& replicas, const std::vector<BuddyCopy>& mine) {
  std::vector<int64_t> own(numbers_of_copy * most_copies, nothing);
  for (size_t i = 0; i < std::min(mine.size(), most_copies); ++i) {
    const BuddyCopy& copy = mine[i];
    std::ranges::copy(std::vector<int64_t>{copy.number, copy.owner, copy.owner_before, copy.owners},
                      own.begin() + static_cast<std::ptrdiff_t>(numbers_of_copy * i));
  }
  const std::vector<int64_t> all = replicas.gather(own);
  std::vector<std::vector<Held>> held(static_cast<size_t>(replicas.size()));
  for (size_t at = 0; at < all.size(); at += numbers_of_copy) {
    if (all[at] != nothing)
      held[at / (numbers_of_copy * most_copies)].push_back({all[at], all[at + 1], all[at + 2], all[at + 3]});
  }
  return held;
}

// The ranks that have the parts of each owner in copies of that number; empty where one is missing, or a rank has made
// no such copy.
std::vector<int> sources_of(const std::vector<std::vector<Held>>& held, int64_t number) {
  std::vector<int> sources;
  for (size_t rank = 0; rank < held.size(); ++rank) {
    const auto copy = std::ranges::find(held[rank], number, &Held::number);
    if (copy == held[rank].end()) return {};
    sources.resize(static_cast<size_t>(copy->owners), nothing);
    for (const int64_t owner : {copy->owner_before, copy->owner}) {
      if (owner != nothing) sources[static_cast<size_t>(owner)] = static_cast<int>(rank);
    }
  }
  return std::ranges::find(sources, nothing) == sources.end() ? sources : std::vector<int>();
}

struct Found {
  int64_t number = nothing;
  std::vector<int> sources;  // by owner
};

std::optional<Found> youngest_whole(const std::vector<std::vector<Held>>& held) {
  std::set<int64_t, std::greater<>> known;
  for (const Held& copy : held.front()) known.insert(copy.number);
  for (const int64_t number : known) {
    if (std::vector<int> sources = sources_of(held, number); !sources.empty()) return Found{number, std::move(sources)};
  }
  return std::nullopt;
}

// A part of the source, whatever it has of others.
std::vector<uint8_t> part_from(Replicas& replicas, int source, int64_t owner, const BuddyCopy& mine) {
  if (replicas.rank() != source) return replicas.of_rank(source, std::vector<uint8_t>());
  return replicas.of_rank(source, mine.owner == owner ? mine.own : mine.before);
}

}  // namespace

void BuddyCopies::keep(int64_t step, const Checkpoint& checkpoint, const Cuts& cuts,
                       const std::vector<Optimizers::ShardState>& states) {
  settle();
  const int before = rank_before(), next = (replicas_.rank() + 1) % replicas_.size();
  kept_[1] = std::exchange(kept_[0], std::nullopt);
  BuddyCopy& copy = kept_[0].emplace(
      BuddyCopy{.number = made_++, .step = step, .owner = replicas_.owner(), .owners = replicas_.owners()});
  Checkpoint rest{{}, checkpoint.metadata, nullptr};
  for (const auto& [name, tensor] : checkpoint.tensors) {
    if (!cuts.contains(name)) rest.tensors.emplace(name, tensor);
  }
  copy.rest = on_host(rest, step, {});
  copy.own = own_part(checkpoint, cuts, states);
  distributed::Group& all = replicas_.all();
  int64_t own_length = static_cast<int64_t>(copy.own.size()), length = 0;
  const distributed::Ticket told = all.send(&own_length, DType::i64, Shape(), next);
  UnderWay part;
  part.sent = all.send(copy.own.data(), DType::u8, shape_of(copy.own), next);
  replicas_.wait(all.receive(&length, DType::i64, Shape(), before));
  copy.before.resize(static_cast<size_t>(length));
  part.received = all.receive(copy.before.data(), DType::u8, shape_of(copy.before), before);
  replicas_.wait(told);
  under_way_ = std::move(part);
}

void BuddyCopies::settle() {
  if (!under_way_) return;
  replicas_.wait(under_way_->received);
  replicas_.wait(under_way_->sent);
  under_way_.reset();
  kept_[0]->owner_before = rank_before() % replicas_.owners();
}

std::vector<BuddyCopy> BuddyCopies::take() {
  try {
    settle();
  } catch (const distributed::CommunicationError&) {
  }
  under_way_.reset();
  std::vector<BuddyCopy> all;
  for (std::optional<BuddyCopy>& copy : kept_) {
    if (copy) all.push_back(std::move(*copy));
    copy.reset();
  }
  return all;
}

std::optional<SurvivorState> joined_copies(Replicas& replicas, const std::vector<BuddyCopy>& mine) {
  const std::optional<Found> found = youngest_whole(gather(replicas, mine));
  if (!found) return std::nullopt;
  const BuddyCopy& copy = *std::ranges::find(mine, found->number, &BuddyCopy::number);
  StatePieces pieces;
  std::vector<SafetensorsBytes> parts;  // that the pieces point into
  for (size_t owner = 0; owner < found->sources.size(); ++owner) {
    const std::string source = fmt::format("the copy of rank {}'s part", owner);
    parts.push_back(
        parse_safetensors(part_from(replicas, found->sources[owner], static_cast<int64_t>(owner), copy), source));
    pieces.take(source, parts.back().tensors, parts.back().metadata);
  }
  SurvivorState state = most_advanced(replicas, copy.rest);
  for (auto& [name, whole] : pieces.join("copies of ranks' parts")) state.tensors[name] = std::move(whole);
  return state;
}

}  // namespace heddle::train
