// Launcher: runs an image on a device.
//
// Purpose: loads the image's kernels once (a kernel's binary where there is one, else its source is compiled), binds
// its launches to memory, records them and submits the recording again as long as the same memory comes. It knows no
// graph and no planner. Invariants: the image does not change; at most a few recordings of an arena are kept.
// Thread safety: any thread may call run(), several at once. A run holds the device's lock from its first write to its
// last submission, so host values, arena and recording are of one run: the queue is in order, and what the next run
// writes to the same memory comes after. Between two segments the lock is let go where something is to be done there;
// what such a run has to itself meanwhile is a Lane: an arena, the host values, the recordings that are bound to both.
// Another run takes another one.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/run/commands.h"
#include "heddle/core/run/graph_result.h"
#include "heddle/core/run/image.h"
#include "heddle/core/run/launch_memory.h"
#include "heddle/core/run/replay.h"

namespace heddle {

class Launcher final : private ArenaUser {
 public:
  // DeviceError when the image was made for another device or driver; CompileError.
  Launcher(DeviceContext& device, GraphImage image);
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // What a run reads: storages, the first byte that is bound of each, and the host values; as many as the image says,
  // each with its input_bytes (complaint()). A captured graph has all three.
  struct Inputs {
    std::span<const StoragePtr> storages;
    std::span<const uint64_t> bases;
    std::span<const HostValue> host_values;
  };
  // What is wrong with them; "" when nothing is. run() does not look: it is called for every step.
  std::string complaint(const Inputs& inputs) const;
  // Called after each segment but the last, without the device's lock (unless the caller of run() holds it); the next
  // segment is submitted when it returns. It gets the number of the segment and its end, which has not been waited for.
  // What it throws ends the run: the segments before have been submitted, and what they assign may be half assigned.
  using Between = std::function<void(size_t segment, const Event& end)>;
  // Enqueues the image. `own`: storages of an earlier run that nobody needs any more, instead of new ones. Without
  // `between` all segments are submitted at once.
  GraphResult run(const Inputs& inputs, const std::vector<StoragePtr>* own = nullptr, const Between& between = {});
  void forget_recordings(size_t arena) override;

  const GraphImage& image() const { return image_; }
  // Most bytes that the device held when the image was submitted; 0: not yet.
  uint64_t measured_bytes() const { return measured_; }

 private:
  using Lock = std::optional<DeviceContext::Locked>;
  struct Segment {
    std::shared_ptr<KeptRecording> kept;                    // null: it has no commands
    std::shared_ptr<const std::vector<KernelFacts>> facts;  // of the commands; null: not timed
  };
  struct Recording {
    std::vector<Binding> signature;
    bool timed = false;
    std::vector<Segment> segments;  // none: there is nothing to launch
  };
  // What one run at a time has to itself, by the number of its arena.
  struct Lane {
    std::vector<StoragePtr> arena;  // of the recordings
    StoragePtr host;                // host values
    std::shared_ptr<HostBlock> offloaded;
    std::vector<Recording> recordings;
  };
  // A timed submission, whose times are asked for without the lock.
  struct Timed {
    Ticket ticket;
    std::shared_ptr<const std::vector<KernelFacts>> facts;
    double submitted;
  };
  // What the part that is computed once has seen of an input.
  struct Seen {
    std::weak_ptr<Storage> storage;  // weak: an owner more, and it would not be updated in place
    uint64_t version = 0, base = 0;
  };

  GraphResult run_locked(Lock& lock, const Inputs& inputs, const std::vector<StoragePtr>* own, const Between& between,
                         std::vector<Timed>& timed);
  GraphResult run_all(Lock& lock, const Inputs& inputs, const std::vector<StoragePtr>* given, const Between& between,
                      std::vector<Timed>& timed);
  bool once_values_hold(const Inputs& inputs) const;
  void compute_once_values(Lock& lock, const Inputs& inputs, std::vector<Timed>& timed);
  Lane& lane(const ArenaTurn& turn);
  void write_host_values(Lane& lane, const Inputs& inputs);
  std::vector<Binding> signature(const Lane& lane, const Inputs& inputs, const std::vector<StoragePtr>& own) const;
  Recording record(const Lane& lane, const Inputs& inputs, std::vector<Binding> signature, size_t own, bool timed);
  const Recording& recording(Lane& lane, const Inputs& inputs, const std::vector<StoragePtr>& own, bool timed);
  Ticket submit(const Lane& lane, const Segment& segment, const Inputs& inputs, const std::vector<StoragePtr>& own,
                std::vector<Timed>& timed);
  GraphResult collect(const Inputs& inputs, const std::vector<StoragePtr>& own) const;

  DeviceContext& device_;
  GraphImage image_;
  std::vector<KernelId> kernels_;   // by kernel of the image
  std::unique_ptr<Launcher> once_;  // of image_.once
  bool is_once_ = false;            // another's once_
  std::vector<Seen> once_seen_;     // by image_.once_slots, when it ran
  std::vector<StoragePtr> once_values_;
  std::deque<Lane> lanes_;  // by the number of the arena
  std::atomic<uint64_t> measured_ = 0;
};

}  // namespace heddle
