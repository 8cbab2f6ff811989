#include "heddle/train/neighbour_lists.h"

#include <fmt/format.h>

#include <atomic>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/hash.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/shared_memory.h"
#include "heddle/core/device/adopted.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/number_guard.h"

namespace heddle::train {
namespace {

constexpr uint64_t page = 4096;  // that drivers ask of adopted memory at most

// What stands before the lists: each rank writes a line of its own.
struct alignas(128) Line {
  std::atomic<uint64_t> meetings;
};
struct Head {
  uint64_t token;  // of this memory: a process elsewhere may have another one of that name
  Line lines[NeighbourLists::ranks];
};
static_assert(sizeof(Head) <= page && std::atomic<uint64_t>::is_always_lock_free);

bool wanted() { return os::variable("HEDDLE_SHARED_LISTS").value_or("1") != "0" && !number_guard() && !eager_mode(); }

// Whether all say yes, and are on one host.
bool all_can(Replicas& replicas, bool mine) {
  const auto host = static_cast<int64_t>(hash_string(os::host_name() + "\n" + os::system_stamp()));
  const std::vector<int64_t> words = replicas.gather({mine ? 1 : 0, host});
  bool all = true;
  for (size_t i = 0; i < words.size(); i += 2) all = all && words[i] == 1 && words[i + 1] == words[1];
  return all;
}

}  // namespace

struct NeighbourLists::Memory {
  os::SharedMemory shared;
  uint64_t list_bytes;

  explicit Memory(int64_t size) : list_bytes(round_up(static_cast<uint64_t>(size) * sizeof(float), page)) {}
  uint64_t bytes() const { return page + lots * ranks * list_bytes; }
  Head& head() const { return *reinterpret_cast<Head*>(shared.first()); }
  std::byte* list(size_t lot, size_t rank) const { return shared.first() + page + (ranks * lot + rank) * list_bytes; }

  // The first rank makes it, the other one finds it by its name. Whether both have it.
  bool open(Replicas& replicas) {
    if (replicas.leads()) {
      shared = os::SharedMemory::make(bytes());
      if (shared.first() != nullptr) head().token = std::random_device{}() | uint64_t{1} << 32;
    }
    const std::string name = replicas.of_first(shared.name());
    const uint64_t token = replicas.of_first(shared.first() != nullptr ? head().token : 0);
    if (!replicas.leads() && token != 0) shared = os::SharedMemory::open(name, bytes());
    return !replicas.any(shared.first() == nullptr || head().token != token);
  }
};

std::unique_ptr<NeighbourLists> NeighbourLists::open(Replicas& replicas, DeviceContext& device, int64_t size) {
  // A rank that is lost cannot be told from one that is late here.
  if (static_cast<size_t>(replicas.size()) != ranks || replicas.mixed() || replicas.world().survives()) return nullptr;
  const auto memory = std::make_shared<Memory>(size);
  const bool is_short = memory->list_bytes <= static_cast<uint64_t>(most_bytes);
  // The reference gives each result memory of its own.
  const bool in_place = device.caps().target != Target::none && has_host_memory(device);
  if (!all_can(replicas, wanted() && is_short && in_place)) return nullptr;
  if (!memory->open(replicas)) return nullptr;
  std::unique_ptr<NeighbourLists> lists(new NeighbourLists(replicas, memory, size));
  if (replicas.any(!lists->adopt(device))) return nullptr;
  return lists;
}

NeighbourLists::NeighbourLists(Replicas& replicas, std::shared_ptr<Memory> memory, int64_t size)
    : replicas_(replicas), memory_(std::move(memory)), size_(size) {}

NeighbourLists::~NeighbourLists() = default;

// Storages keep the memory.
bool NeighbourLists::adopt(DeviceContext& device) {
  const auto me = static_cast<size_t>(replicas_.rank());
  for (size_t lot = 0; lot < lots; ++lot) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      const HostUse use = rank == me ? HostUse::write : HostUse::read;
      Adopted adopted = adopt_memory(device, memory_->list(lot, rank), static_cast<uint64_t>(size_) * sizeof(float),
                                     use, [kept = memory_] {});
      if (!adopted.storage || adopted.skip != 0) return false;
      if (rank == me) own_[lot] = adopted.storage.get();
      tensors_[lot][rank] = Tensor(make_leaf(std::move(adopted.storage), View::dense(Shape{size_}), DType::f32));
    }
  }
  return true;
}

std::span<float> NeighbourLists::values(size_t lot, int rank) const {
  return {reinterpret_cast<float*>(memory_->list(lot, static_cast<size_t>(rank))), static_cast<size_t>(size_)};
}

// What is assigned to a tensor goes to another place where its memory has another owner.
void NeighbourLists::check_place(size_t lot) {
  if (list(lot, replicas_.rank()).node()->storage.get() != own_[lot])
    throw std::logic_error("[train] a list of gradients has left the memory that two ranks share");
}

void NeighbourLists::meet(size_t lot) {
  check_place(lot);
  const auto me = static_cast<size_t>(replicas_.rank()), other = ranks - 1 - me;
  const uint64_t number = ++meetings_;
  Head& head = memory_->head();
  head.lines[me].meetings.store(number, std::memory_order_release);
  replicas_.wait_until(
      [&] { return head.lines[other].meetings.load(std::memory_order_acquire) >= number; }, "all_reduce",
      [&] {
        return fmt::format("all_reduce sum f32 ({}) in shared memory: rank {} has not come to the exchange {}", size_,
                           other, number);
      });
  replicas_.note_shared(static_cast<uint64_t>(size_) * sizeof(float));
  note_host_write(*list(lot, static_cast<int>(other)).node()->storage);
}

}  // namespace heddle::train
