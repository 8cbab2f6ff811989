#include "heddle/core/device/kernel_table.h"

#include <algorithm>
#include <atomic>

#include "heddle/core/device/ending.h"

namespace heddle {
namespace {

// Kernels were compiled and nobody has waited for them since: some drivers (PoCL) do most of it behind the queue.
std::atomic<bool> cold{false};

}  // namespace

std::vector<KernelId> KernelTable::find_or_make(const std::string& device, const std::vector<uint64_t>& hashes,
                                                const Make& make) {
  std::vector<size_t> fresh;  // the first of each hash
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (ids_.contains(hashes[i]) ||
        std::any_of(fresh.begin(), fresh.end(), [&](size_t other) { return hashes[other] == hashes[i]; }))
      continue;
    fresh.push_back(i);
  }
  if (!fresh.empty()) {
    constexpr size_t together = 16;  // a notice says how far it is
    ending::register_thread();
    CompileNotice notice(device, fresh.size());
    cold = true;
    for (size_t at = 0; at < fresh.size(); at += together) {
      const auto part = std::span<const size_t>(fresh).subspan(at, std::min(together, fresh.size() - at));
      const std::vector<KernelId> made = make(part);
      for (size_t i = 0; i < part.size(); ++i) ids_.emplace(hashes[part[i]], made[i]);
      notice.done(made.size());
    }
  }
  std::vector<KernelId> ids;
  for (const uint64_t hash : hashes) ids.push_back(ids_.at(hash));
  return ids;
}

void KernelTable::release_all(Device& device) {
  for (const auto& [hash, kernel] : ids_) device.release(kernel);
}

WhileWaiting::WhileWaiting(const std::string& device) {
  if (cold.exchange(false)) notice_.emplace(device, 0);
}

}  // namespace heddle
