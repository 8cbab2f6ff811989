// Launcher: runs an image on a device.
//
// Purpose: compiles the image's kernels once, binds its launches to memory, records them and submits the recording
// again as long as the same memory comes. It knows no graph and no planner. Invariants: the image does not change; at
// most a few recordings are kept. Thread safety: used under the device's lock, as the planner's cache is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/run/commands.h"
#include "heddle/core/run/graph_result.h"
#include "heddle/core/run/image.h"
#include "heddle/core/run/replay.h"

namespace heddle {

class Launcher {
 public:
  // DeviceError when the image was made for another device or driver; CompileError.
  Launcher(DeviceContext& device, GraphImage image);

  // What a run reads: storages, the first byte that is bound of each, and the host values; as many as the image says,
  // each with its input_bytes (complaint()). A captured graph has all three.
  struct Inputs {
    std::span<const StoragePtr> storages;
    std::span<const uint64_t> bases;
    std::span<const HostValue> host_values;
  };
  // What is wrong with them; "" when nothing is. run() does not look: it is called for every step.
  std::string complaint(const Inputs& inputs) const;
  // Enqueues the image. `own`: storages of an earlier run that nobody needs any more, instead of new ones.
  GraphResult run(const Inputs& inputs, const std::vector<StoragePtr>* own = nullptr);
  // Gives back the arena that recordings are bound to; the next run records anew.
  void forget_recordings();

  const GraphImage& image() const { return image_; }
  // Most bytes that the device held when the image was submitted; 0: not yet.
  uint64_t measured_bytes() const { return measured_; }

 private:
  struct Recording {
    std::vector<Binding> signature;
    std::shared_ptr<KeptRecording> kept;
    std::shared_ptr<const std::vector<KernelFacts>> facts;  // of the commands; null: not timed
  };
  // What the part that is computed once has seen of an input.
  struct Seen {
    std::weak_ptr<Storage> storage;  // weak: an owner more, and it would not be updated in place
    uint64_t version = 0, base = 0;
  };

  GraphResult run_all(const Inputs& inputs, const std::vector<StoragePtr>* given);
  bool once_values_hold(const Inputs& inputs) const;
  void compute_once_values(const Inputs& inputs);
  void write_host_values(const Inputs& inputs);
  std::vector<Binding> signature(const Inputs& inputs, const std::vector<StoragePtr>& own) const;
  Recording record(const Inputs& inputs, std::vector<Binding> signature, size_t own, bool timed);
  void submit(const Inputs& inputs, const std::vector<StoragePtr>& own);
  GraphResult collect(const Inputs& inputs, const std::vector<StoragePtr>& own) const;

  DeviceContext& device_;
  GraphImage image_;
  std::vector<KernelId> kernels_;   // by kernel of the image
  std::unique_ptr<Launcher> once_;  // of image_.once
  std::vector<Seen> once_seen_;     // by image_.once_slots, when it ran
  std::vector<StoragePtr> once_values_;
  StoragePtr host_;
  std::shared_ptr<HostBlock> offloaded_;
  std::vector<StoragePtr> arena_;  // of the recordings
  std::vector<Recording> recordings_;
  uint64_t measured_ = 0;
};

}  // namespace heddle
