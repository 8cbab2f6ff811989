#include "heddle/runtime/bound_image.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/run/commands.h"

namespace heddle {
namespace {

std::vector<Binding> bindings_of(std::span<const StoragePtr> storages) {
  std::vector<Binding> bindings;
  for (const StoragePtr& storage : storages) bindings.push_back(storage->binding());
  return bindings;
}

}  // namespace

void ModelArena::need(const GraphImage& image) {
  bytes_.resize(std::max(bytes_.size(), image.arena_bytes.size()), 0);
  for (size_t b = 0; b < image.arena_bytes.size(); ++b) bytes_[b] = std::max(bytes_[b], image.arena_bytes[b]);
  host_bytes_ = std::max(host_bytes_, image.host_bytes);
}

void ModelArena::make() {
  for (const uint64_t bytes : bytes_) blocks_.push_back(device_.allocate(bytes));
  if (host_bytes_ > 0) host_ = std::make_shared<HostBlock>(device_, host_bytes_);
}

BoundImage::BoundImage(DeviceContext& device, const GraphImage& image, std::span<const KernelId> kernels,
                       std::vector<StoragePtr> inputs, std::span<const uint32_t> host_words, const ModelArena& arena)
    : device_(device),
      image_(image),
      kernels_(kernels.begin(), kernels.end()),
      inputs_(std::move(inputs)),
      host_block_(arena.host_block()) {
  own_ = device.allocate_results(image.own_bytes);
  if (!host_words.empty()) {
    host_ = device.allocate(host_words.size_bytes());
    device.write(*host_, 0, host_words.data(), host_words.size_bytes());
  }
  const std::span blocks = std::span(arena.blocks()).first(image.arena_bytes.size());
  blocks_.assign(blocks.begin(), blocks.end());
  recording_ = record(inputs_, own_);
}

// Null: there is nothing to launch.
std::unique_ptr<KeptRecording> BoundImage::record(std::span<const StoragePtr> inputs,
                                                  std::span<const StoragePtr> own) const {
  const auto check = [](std::span<const StoragePtr> storages, const std::vector<uint64_t>& bytes) {
    for (size_t slot = 0; slot < bytes.size(); ++slot) {
      if (slot >= storages.size() || storages[slot]->bytes() < bytes[slot])
        throw IoError(fmt::format("[model_image] storage {} is smaller than what is used of it", slot));
    }
  };
  check(inputs, image_.input_bytes);
  check(own, image_.own_bytes);
  ImageMemory memory{bindings_of(inputs), bindings_of(own), bindings_of(blocks_), {}, BufferId::none};
  if (host_) memory.host = host_->binding();
  if (host_block_) memory.host_block = host_block_->buffer();
  const Bound commands = bind_image(device_, image_, kernels_, memory, memory.inputs);
  if (commands.list.empty()) return nullptr;
  std::vector<StoragePtr> kept = blocks_;
  if (commands.table) kept.push_back(commands.table);
  auto locked = device_.lock();
  const RecordingId id = locked.device.record(commands.list, false);
  auto recording =
      std::make_unique<KeptRecording>(device_, id, commands.segments.front().launched, std::move(kept), host_block_);
  locked.counters.recordings++;
  return recording;
}

void BoundImage::use_input(int32_t slot, StoragePtr storage) {
  std::vector<StoragePtr> inputs = inputs_;
  inputs.at(static_cast<size_t>(slot)) = std::move(storage);
  recording_ = record(inputs, own_);
  inputs_ = std::move(inputs);
}

void BoundImage::use_result(int32_t index, StoragePtr storage) {
  std::vector<StoragePtr> own = own_;
  own.at(static_cast<size_t>(index)) = std::move(storage);
  recording_ = record(inputs_, own);
  own_ = std::move(own);
}

Ticket BoundImage::submit() {
  if (!recording_) return Ticket::none;
  auto locked = device_.lock();
  const Ticket ticket = locked.device.submit(recording_->id());
  device_.remember(ticket);
  for (const StoragePtr& storage : inputs_) storage->last_use = ticket;
  for (const StoragePtr& storage : own_) storage->last_use = ticket;
  locked.counters.kernels += recording_->kernels();
  locked.counters.submissions++;
  return ticket;
}

const StoragePtr& BoundImage::storage(const GraphImage::Output& output) const {
  const auto index = static_cast<size_t>(output.index);
  return output.kind == GraphImage::Output::Kind::own ? own_.at(index) : inputs_.at(index);
}

}  // namespace heddle
