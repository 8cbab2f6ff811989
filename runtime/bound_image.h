// BoundImage: an image bound to memory, recorded once.
//
// Purpose: what a launcher (core/run/launcher.h) decides at each run is decided when a model is opened: whatever a run
// needs is there, and submit() allocates nothing. The commands are those of the launcher (core/run/commands.h), so
// numbers are the same by construction. Other memory for an input or a result is another recording. Invariants: the
// memory is kept as long as the recording; after an exception all is as before. Errors: LimitError, OutOfMemory,
// DeviceError of the device. Thread safety: one thread at a time; submit() locks the device.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/run/image.h"
#include "heddle/core/run/replay.h"

namespace heddle {

// Memory of a model that the images of all its buckets share: the device's queue is in order, so one run's temporaries
// are over when the next one's begin.
class ModelArena {
 public:
  explicit ModelArena(DeviceContext& device) : device_(device) {}
  // Blocks that are as large as any image needs; before the first one is bound.
  void need(const GraphImage& image);
  void make();
  const std::vector<StoragePtr>& blocks() const { return blocks_; }
  const std::shared_ptr<HostBlock>& host_block() const { return host_; }

 private:
  DeviceContext& device_;
  std::vector<uint64_t> bytes_;
  uint64_t host_bytes_ = 0;
  std::vector<StoragePtr> blocks_;
  std::shared_ptr<HostBlock> host_;
};

class BoundImage {
 public:
  // The image outlives this; its kernels' code is not needed. `inputs`: by slot of the image. `host_words`: four a host
  // value.
  BoundImage(DeviceContext& device, const GraphImage& image, std::span<const KernelId> kernels,
             std::vector<StoragePtr> inputs, std::span<const uint32_t> host_words, const ModelArena& arena);
  // Enqueues a run; Ticket::none: there is nothing to launch.
  Ticket submit();
  // That an output of the image lies in.
  const StoragePtr& storage(const GraphImage::Output& output) const;
  // Later runs read that input from, or write that result to, the storage.
  void use_input(int32_t slot, StoragePtr storage);
  void use_result(int32_t index, StoragePtr storage);

 private:
  std::unique_ptr<KeptRecording> record(std::span<const StoragePtr> inputs, std::span<const StoragePtr> own) const;

  DeviceContext& device_;
  const GraphImage& image_;
  std::vector<KernelId> kernels_;
  std::vector<StoragePtr> inputs_, own_, blocks_;
  StoragePtr host_;  // host values, null: none
  std::shared_ptr<HostBlock> host_block_;
  std::unique_ptr<KeptRecording> recording_;
};

}  // namespace heddle
