#include "heddle/core/graph/trace_handles.h"

#include <mutex>
#include <new>
#include <unordered_map>

#include "heddle/core/graph/trace.h"

namespace heddle::trace {
namespace {

struct Watches {
  std::mutex mutex;
  std::unordered_multimap<const Tensor*, std::shared_ptr<std::atomic<bool>>> by_handle;
};

// Leaked: handles in static objects are destroyed after any static table.
Watches& watches() {
  static Watches* const all = new Watches();
  return *all;
}

// Handles are copied and moved in places that cannot fail: a trace that lost something is refused instead, and the
// function runs at every call.
template <class F>
void noted(F&& note) noexcept {
  Trace* const trace = Trace::current();
  if (!trace) return;
  try {
    note(*trace);
  } catch (const std::bad_alloc&) {
    trace->refuse("out of memory");  // short enough to need none
  }
}

void touch(Trace& trace, const Tensor& handle) {
  const std::shared_ptr<TensorImpl>& impl = handle.impl();
  if (!trace.touch(&handle, impl)) return;
  const NodePtr& node = impl->node;
  trace.states.push_back({impl, node, impl->requires_grad, node && node->tracks, impl->hooks.size()});
}

}  // namespace

void touched(const Tensor& handle) noexcept {
  noted([&](Trace& trace) { touch(trace, handle); });
}

void moved(const Tensor& from, const Tensor& to) noexcept {
  noted([&](Trace& trace) {
    touch(trace, from);
    touch(trace, to);
  });
}

void copied(const Tensor& from, const Tensor& made) noexcept {
  noted([&](Trace& trace) {
    touch(trace, from);
    touch(trace, made);
    Trace::Handle& handle = trace.handles[&made];
    handle.before = nullptr;
    handle.fresh = true;
  });
}

void destroyed(const Tensor& handle, bool watched) noexcept {
  if (Trace* const trace = Trace::current()) trace->forget(&handle);
  if (!watched) return;
  Watches& all = watches();
  const std::lock_guard guard(all.mutex);
  const auto [begin, end] = all.by_handle.equal_range(&handle);
  for (auto at = begin; at != end; ++at) at->second->store(false, std::memory_order_release);
  all.by_handle.erase(begin, end);
}

void watch(const Tensor& handle, std::shared_ptr<std::atomic<bool>> valid) {
  Watches& all = watches();
  const std::lock_guard guard(all.mutex);
  handle.mark_watched();
  all.by_handle.emplace(&handle, std::move(valid));
}

void unwatch(const Tensor* handle, const std::shared_ptr<std::atomic<bool>>& valid) {
  Watches& all = watches();
  const std::lock_guard guard(all.mutex);
  const auto [begin, end] = all.by_handle.equal_range(handle);
  for (auto at = begin; at != end; ++at) {
    if (at->second != valid) continue;
    all.by_handle.erase(at);
    return;
  }
}

}  // namespace heddle::trace
