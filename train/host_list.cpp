#include "heddle/train/host_list.h"

#include "heddle/core/device/adopted.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/graph/node.h"

namespace heddle::train {
namespace {

uint64_t offset_of(const Node& node) { return static_cast<uint64_t>(node.view.offset) * sizeof(float); }

}  // namespace

std::span<float> HostList::take(const Event& end) {
  end.wait();
  const Node& node = *list_->node();
  Storage& storage = *node.storage;
  if (storage_.lock() != node.storage) {
    auto* const first = static_cast<std::byte*>(host_address(storage));
    address_ = first != nullptr ? reinterpret_cast<float*>(first + offset_of(node)) : nullptr;
    storage_ = node.storage;
  }
  const auto count = static_cast<size_t>(node.shape.numel());
  if (address_ != nullptr) return {address_, count};
  copy_.resize(count);
  storage.device().read(storage, offset_of(node), copy_.data(), count * sizeof(float));
  return copy_;
}

void HostList::give_back() {
  const Node& node = *list_->node();
  if (address_ != nullptr) return note_host_write(*node.storage);
  node.storage->device().write(*node.storage, offset_of(node), copy_.data(), copy_.size() * sizeof(float));
}

}  // namespace heddle::train
