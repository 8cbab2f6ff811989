// Replay: submits again what an evaluation submitted, without recording the graph anew.
//
// Purpose: a benchmark or a tuner measures kernels, not the loop around them; what a graph costs when its plan and
// memory are known. Invariants: the memory of the submissions is kept, so every run reads and writes the same
// addresses; a graph that updates values in place goes on updating them. What a graph computes once
// (core/simplify/precomputed.h) a run computes only where it came from something that was written since. All segments
// of a graph are submitted at once, on the arena of the capture: no run that does something between its segments goes
// on beside. Thread safety: capture() belongs to the calling thread; run() locks the device.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"

namespace heddle {

// Page-locked host memory that recordings copy to and from.
class HostBlock {
 public:
  // Throws OutOfMemory.
  HostBlock(DeviceContext& device, uint64_t bytes);
  ~HostBlock();
  HostBlock(const HostBlock&) = delete;
  HostBlock& operator=(const HostBlock&) = delete;
  BufferId buffer() const { return buffer_; }
  uint64_t bytes() const { return bytes_; }

 private:
  DeviceContext& device_;
  uint64_t bytes_;
  BufferId buffer_;
};

// A recording of a device with the memory it is bound to; released with its last owner.
class KeptRecording {
 public:
  KeptRecording(DeviceContext& device, RecordingId id, size_t kernels, std::vector<StoragePtr> arena,
                std::shared_ptr<HostBlock> host = nullptr)
      : device_(device), id_(id), kernels_(kernels), arena_(std::move(arena)), host_(std::move(host)) {}
  ~KeptRecording();
  KeptRecording(const KeptRecording&) = delete;
  KeptRecording& operator=(const KeptRecording&) = delete;
  DeviceContext& device() const { return device_; }
  RecordingId id() const { return id_; }
  size_t kernels() const { return kernels_; }

 private:
  DeviceContext& device_;
  RecordingId id_;
  size_t kernels_;
  std::vector<StoragePtr> arena_;
  std::shared_ptr<HostBlock> host_;
};

class Replay {
 public:
  // Runs `work` on this thread and remembers what it submits.
  static Replay capture(const std::function<void()>& work);
  // Submits all of it again, in the same order; returns when it is enqueued.
  void run() const;
  size_t submissions() const { return parts_->size(); }
  // Dispatches of one run, without those of what is computed once.
  size_t kernels() const;

  // What a submission uses: memory that it only reads, and memory that it may write.
  struct Memory {
    std::vector<StoragePtr> read, written;
  };
  // For core/run: called after each submission while this thread captures. `once`: it has to run again only where
  // something that it reads was written.
  static bool capturing();
  static void note(const std::shared_ptr<KeptRecording>& recording, Memory memory, bool once);

 private:
  struct Part {
    std::shared_ptr<KeptRecording> recording;
    Memory memory;
    bool once = false;
    std::vector<uint64_t> seen;  // once: versions of memory.read when it ran
  };
  // Copies of a replay share what was seen, as they share the memory.
  std::shared_ptr<std::vector<Part>> parts_ = std::make_shared<std::vector<Part>>();
};

}  // namespace heddle
