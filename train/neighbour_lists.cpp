#include "heddle/train/neighbour_lists.h"

#include <fmt/format.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/shared_memory.h"
#include "heddle/core/device/adopted.h"
#include "heddle/core/device/host_calls.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/number_guard.h"

namespace heddle::train {
namespace {

constexpr uint64_t page = 4096;  // that drivers ask of adopted memory at most
// A caller stops at every so-manieth meeting, at one time on both ranks: a host that submits while its device shares
// its processor holds up both devices, so both are to do it at once. Far fewer submissions than
// DeviceContext::too_far_ahead() allows, which stops each rank when its own device comes to it.
constexpr uint64_t updates_ahead = 6;

// What stands before the lists: each rank writes lines of its own, its caller one and its device the other.
struct alignas(128) Line {
  std::atomic<uint64_t> meetings;
};
// Of two meetings in turns, as lists are: who tells of the next but one has read what the other told of this one.
struct alignas(128) Told {
  std::atomic<uint64_t> meetings;
  float wishes[NeighbourLists::lots][Wishes::count];
};
struct Head {
  uint64_t token;  // of this memory: a process elsewhere may have another one of that name
  Line lines[NeighbourLists::ranks];
  Told told[NeighbourLists::ranks];
};
static_assert(sizeof(Head) <= page && std::atomic<uint64_t>::is_always_lock_free);

bool reached(const std::atomic<uint64_t>& meetings, uint64_t number) {
  return meetings.load(std::memory_order_acquire) >= number;
}

bool wanted() { return os::variable("HEDDLE_SHARED_LISTS").value_or("1") != "0" && !number_guard() && !eager_mode(); }

// Whether all say yes, and are on one host.
bool all_can(Replicas& replicas, bool mine) {
  const auto host = static_cast<int64_t>(hash_string(os::host_name() + "\n" + os::system_stamp()));
  const std::vector<int64_t> words = replicas.gather({mine ? 1 : 0, host});
  bool all = true;
  for (size_t i = 0; i < words.size(); i += 2) all = all && words[i] == 1 && words[i + 1] == words[1];
  return all;
}

bool are_processes(Replicas& replicas) {
  const std::vector<int64_t> ids = replicas.gather({os::process_id()});
  return ids.front() != ids.back();
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

// What calls in the queue know.
struct NeighbourLists::Meeting {
  Replicas& replicas;  // as long as the lists are there
  std::shared_ptr<Memory> memory;
  size_t me;
  int64_t size;
  std::atomic<bool> abandoned{false};
  std::mutex mutex;
  std::exception_ptr failure;  // of the first one that failed

  size_t other() const { return ranks - 1 - me; }

  // This rank's list is written; until the other's is.
  void take_place(uint64_t number) {
    Head& head = memory->head();
    head.lines[me].meetings.store(number, std::memory_order_release);
    const auto there = [&] { return abandoned || reached(head.lines[other()].meetings, number); };
    replicas.wait_until(there, "all_reduce", [&] { return missing(number); });
  }

  void take_place_in_queue(uint64_t number) noexcept {
    if (abandoned) return;
    try {
      take_place(number);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  }

  std::string missing(uint64_t number) const {
    return fmt::format("all_reduce sum f32 ({}) in shared memory: rank {} has not come to the exchange {}", size,
                       other(), number);
  }
};

std::unique_ptr<NeighbourLists> NeighbourLists::open(Replicas& replicas, DeviceContext& device, int64_t size,
                                                     std::optional<bool> apart) {
  // A rank that is lost cannot be told from one that is late here.
  if (static_cast<size_t>(replicas.size()) != ranks || replicas.mixed() || replicas.world().survives()) return nullptr;
  const auto memory = std::make_shared<Memory>(size);
  const bool is_short = memory->list_bytes <= static_cast<uint64_t>(most_bytes);
  // The reference gives each result memory of its own.
  const bool in_place = device.caps().target != Target::none && has_host_memory(device);
  if (!all_can(replicas, wanted() && is_short && in_place)) return nullptr;
  if (!memory->open(replicas)) return nullptr;
  std::unique_ptr<NeighbourLists> lists(new NeighbourLists(replicas, device, memory, size));
  if (replicas.any(!lists->adopt())) return nullptr;
  lists->in_queue_ = (apart ? *apart : are_processes(replicas)) && takes_host_calls(device);
  return lists;
}

NeighbourLists::NeighbourLists(Replicas& replicas, DeviceContext& device, std::shared_ptr<Memory> memory, int64_t size)
    : replicas_(replicas),
      device_(device),
      memory_(memory),
      meeting_(std::make_shared<Meeting>(replicas, std::move(memory), static_cast<size_t>(replicas.rank()), size)),
      size_(size) {}

// Behind a failure the other rank may not come any more. A device that is lost makes no call.
NeighbourLists::~NeighbourLists() {
  meeting_->abandoned = true;
  try {
    last_.wait();
  } catch (const DeviceError&) {
  }
}

// Storages keep the memory.
bool NeighbourLists::adopt() {
  const auto me = static_cast<size_t>(replicas_.rank());
  for (size_t lot = 0; lot < lots; ++lot) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      const HostUse use = rank == me ? HostUse::write : HostUse::read;
      Adopted adopted = adopt_memory(device_, memory_->list(lot, rank), static_cast<uint64_t>(size_) * sizeof(float),
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

void NeighbourLists::meet(size_t lot, const Wishes& mine) {
  check_place(lot);
  const uint64_t number = ++meetings_;
  Told& told = memory_->head().told[meeting_->me];
  mine.write(told.wishes[number % lots]);
  told.meetings.store(number, std::memory_order_release);
  if (in_queue_) {
    last_ = enqueue_host_call(device_, [meeting = meeting_, number] { meeting->take_place_in_queue(number); });
  } else {
    device_.event().wait();
    meeting_->take_place(number);
  }
  replicas_.note_shared(static_cast<uint64_t>(size_) * sizeof(float));
  note_host_write(*list(lot, static_cast<int>(meeting_->other())).node()->storage);
}

// The device of who waits here is busy, or waits for the other's itself, which counts there.
Wishes NeighbourLists::agreed() {
  const Head& head = memory_->head();
  const size_t me = meeting_->me, other = meeting_->other(), turn = meetings_ % lots;
  replicas_.wait_until([&] { return reached(head.told[other].meetings, meetings_); }, "all_reduce",
                       [&] { return meeting_->missing(meetings_); }, Replicas::Meanwhile::work);
  if (in_queue_ && meetings_ % updates_ahead == 0) stop_together();
  check();
  std::array<float, Wishes::count> sums{};
  for (size_t i = 0; i < sums.size(); ++i) sums[i] = head.told[me].wishes[turn][i] + head.told[other].wishes[turn][i];
  return Wishes::read(sums);
}

// With one processor for host and device nothing is gained by work ahead: the device is to finish. Else it has that of
// the meetings since the last stop.
void NeighbourLists::stop_together() {
  const Event before = std::exchange(pause_, last_);
  if (std::thread::hardware_concurrency() == 1) return device_.event().wait();
  before.wait();
}

void NeighbourLists::check() const {
  const std::lock_guard lock(meeting_->mutex);
  if (meeting_->failure) std::rethrow_exception(meeting_->failure);
}

}  // namespace heddle::train
