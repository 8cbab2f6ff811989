#include "heddle/core/record/bound_storages.h"

#include <algorithm>

namespace heddle {

BoundStorages::BoundStorages(Capture& capture, std::span<Node* const> written) : capture_(capture) {
  for (const NodePtr& node : capture_.order) {
    if (!node->has_value() || node->host || node->view.offset == 0) continue;
    bases_.try_emplace(node->storage.get(), UINT64_MAX);
  }
  if (bases_.empty()) return;
  for (const NodePtr& node : capture_.order) {
    if (!node->has_value() || node->host) continue;
    const auto base = bases_.find(node->storage.get());
    if (base == bases_.end()) continue;
    const int64_t first = node->view.extent().first * static_cast<int64_t>(size_of(node->dtype));
    const uint64_t step = std::max<uint64_t>(64, node->device->caps().buffer_alignment);
    base->second = std::min(base->second, static_cast<uint64_t>(std::max<int64_t>(0, first)) / step * step);
  }
  for (const Node* target : written) {
    if (target != nullptr) bases_.erase(target->storage.get());
  }
}

int BoundStorages::slot(const StoragePtr& storage) {
  const auto [at, fresh] = slots_.try_emplace(storage.get(), static_cast<int>(capture_.storages.size()));
  if (fresh) {
    const auto base = bases_.find(storage.get());
    capture_.storages.push_back(storage);
    capture_.bases.push_back(base == bases_.end() ? 0 : base->second);
  }
  return at->second;
}

}  // namespace heddle
