#include "heddle/core/graph/host_indices.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "heddle/core/device/locked_device.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

constexpr size_t most_indices = size_t{1} << 20;

struct Entry {
  std::weak_ptr<Storage> storage;
  uint64_t version = 0;
  std::shared_ptr<const HostIndices> all;
};
struct Table {
  std::mutex mutex;
  std::unordered_map<const Storage*, Entry> entries;
  size_t purge_at = 64;
};
Table& table() {
  static auto* instance = new Table;  // tensors may outlive static objects
  return *instance;
}

template <class T>
HostIndices read(const void* data, size_t count) {
  HostIndices all;
  all.values.resize(count);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, static_cast<const char*>(data) + i * sizeof(T), sizeof(T));
    all.values[i] = value;
  }
  const auto [low, high] = std::minmax_element(all.values.begin(), all.values.end());
  all.low = *low;
  all.high = *high;
  return all;
}

void purge(Table& t) {
  if (t.entries.size() < t.purge_at) return;
  std::erase_if(t.entries, [](const auto& entry) { return entry.second.storage.expired(); });
  t.purge_at = std::max<size_t>(64, 2 * t.entries.size());
}

}  // namespace

void note_host_indices(const StoragePtr& storage, const void* data, size_t count, DType dtype) {
  if ((dtype != DType::i32 && dtype != DType::i64) || count == 0 || count > most_indices) return;
  const auto locked = storage->device().lock();
  auto all = std::make_shared<const HostIndices>(dtype == DType::i32 ? read<int32_t>(data, count)
                                                                     : read<int64_t>(data, count));
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  purge(t);
  t.entries[storage.get()] = {storage, storage->version, std::move(all)};
}

std::shared_ptr<const HostIndices> host_indices(const StoragePtr& storage) {
  const auto locked = storage->device().lock();
  Table& t = table();
  const std::lock_guard lock(t.mutex);
  const auto found = t.entries.find(storage.get());
  if (found == t.entries.end() || found->second.version != storage->version || found->second.storage.lock() != storage)
    return nullptr;
  return found->second.all;
}

std::optional<HostSource> host_source(const NodePtr& node) {
  const Node* at = node.get();
  const auto whole = [](DType t) { return t == DType::i32 || t == DType::i64; };
  while (!at->has_value() && (at->op == &ops::reshape_op || (at->op == &ops::cast_op && whole(at->dtype))) &&
         whole(at->inputs[0]->dtype))
    at = at->inputs[0].get();
  if (!at->storage || !whole(at->dtype)) return std::nullopt;
  View rows = at->view;
  rows.offset = 0;
  if (!rows.is_dense()) return std::nullopt;
  HostSource source{at->storage, host_indices(at->storage), static_cast<size_t>(at->view.offset)};
  if (!source.all || source.first + static_cast<size_t>(at->shape.numel()) > source.all->values.size())
    return std::nullopt;
  return source;
}

}  // namespace heddle
