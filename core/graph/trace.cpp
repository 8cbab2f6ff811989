#include "heddle/core/graph/trace.h"

#include <mutex>
#include <new>

#include "heddle/core/graph/tensor.h"

namespace heddle {
namespace {

thread_local Trace* present = nullptr;

struct Watches {
  std::mutex mutex;
  std::unordered_multimap<const Tensor*, std::shared_ptr<std::atomic<bool>>> by_handle;
};

// Leaked: handles in static objects are destroyed after any static table.
Watches& watches() {
  static Watches* const all = new Watches();
  return *all;
}

}  // namespace

Trace::Trace() : before_(present) {
  present = this;
  __atomic_fetch_add(&trace::active, 1, __ATOMIC_RELAXED);
}

Trace::~Trace() { end(); }

void Trace::end() {
  if (ended_) return;
  ended_ = true;
  present = before_;
  __atomic_fetch_sub(&trace::active, 1, __ATOMIC_RELAXED);
}

Trace* Trace::current() { return present; }

void Trace::refuse(std::string why) {
  if (refusal_.empty()) refusal_ = std::move(why);
}

void Trace::touch(const Tensor& handle) {
  const auto [at, fresh] = handles.try_emplace(&handle);
  const std::shared_ptr<TensorImpl>& impl = handle.impl();
  const bool new_state = impl && made.contains(impl.get());
  if (fresh) at->second = {touches_++, new_state ? nullptr : impl, new_state};
  if (!impl || new_state) return;
  if (!state_of.try_emplace(impl.get(), states.size()).second) return;
  const NodePtr& node = impl->node;
  states.push_back({impl, node, impl->requires_grad, node && node->tracks, impl->hooks.size()});
}

namespace trace {

int active = 0;

namespace {

// Handles are copied and moved in places that cannot fail: a trace that lost something is refused instead, and the
// function runs at every call.
template <class F>
void noted(F&& note) noexcept {
  if (!present) return;
  try {
    note();
  } catch (const std::bad_alloc&) {
    present->refuse("out of memory");  // short enough to need none
  }
}

}  // namespace

void touched(const Tensor& handle) noexcept {
  noted([&] { present->touch(handle); });
}

void moved(const Tensor& from, const Tensor& to) noexcept {
  noted([&] {
    present->touch(from);
    present->touch(to);
  });
}

void copied(const Tensor& from, const Tensor& made) noexcept {
  noted([&] {
    present->touch(from);
    present->touch(made);
    Trace::Handle& handle = present->handles[&made];
    handle.before = nullptr;
    handle.fresh = true;
  });
}

void destroyed(const Tensor& handle, bool watched) noexcept {
  if (present) present->forget(handle);
  if (!watched) return;
  Watches& all = watches();
  const std::lock_guard guard(all.mutex);
  const auto [begin, end] = all.by_handle.equal_range(&handle);
  for (auto at = begin; at != end; ++at) at->second->store(false, std::memory_order_release);
  all.by_handle.erase(begin, end);
}

void made(const TensorImpl& impl) {
  if (present) present->made.insert(&impl);
}

void unmade(const TensorImpl& impl) noexcept {
  if (present) present->made.erase(&impl);
}

void derived(const NodePtr& leaf, const NodePtr& from) {
  if (present) present->derived.emplace(leaf.get(), from);
}

void effect(std::function<void()> repeat) {
  if (present) present->actions.push_back({std::move(repeat), {}});
}

void source(const NodePtr& leaf, std::function<HostValue()> next) {
  if (!present) return;
  present->action_of.emplace(leaf.get(), present->actions.size());
  present->actions.push_back({{}, std::move(next)});
}

void refuse(const std::string& why) {
  if (present) present->refuse(why);
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

}  // namespace trace
}  // namespace heddle
