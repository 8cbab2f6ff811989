#include "heddle/core/base/host_epoch.h"

#include <atomic>

namespace heddle::trace {
namespace {

std::atomic<uint64_t> epoch{1};

}  // namespace

uint64_t host_epoch() { return epoch.load(std::memory_order_acquire); }
void host_state_changed() { epoch.fetch_add(1, std::memory_order_acq_rel); }

}  // namespace heddle::trace
