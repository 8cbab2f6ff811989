#include "heddle/core/graph/trace.h"

namespace heddle {
namespace {

thread_local Trace* traced_step = nullptr;

}  // namespace

Trace::Trace() : before_(traced_step) {
  traced_step = this;
  __atomic_fetch_add(&trace::active, 1, __ATOMIC_RELAXED);
}

Trace::~Trace() { end(); }

void Trace::end() {
  if (ended_) return;
  ended_ = true;
  traced_step = before_;
  __atomic_fetch_sub(&trace::active, 1, __ATOMIC_RELAXED);
}

Trace* Trace::current() { return traced_step; }

void Trace::refuse(std::string why) {
  if (refusal_.empty()) refusal_ = std::move(why);
}

bool Trace::touch(const Tensor* handle, const std::shared_ptr<TensorImpl>& impl) {
  const auto [at, fresh] = handles.try_emplace(handle);
  const bool new_state = impl && made.contains(impl.get());
  if (fresh) at->second = {touches_++, new_state ? nullptr : impl, new_state};
  return impl && !new_state && state_of.try_emplace(impl.get(), states.size()).second;
}

namespace trace {

int active = 0;

void made(const TensorImpl& impl) {
  if (traced_step) traced_step->made.insert(&impl);
}

void unmade(const TensorImpl& impl) noexcept {
  if (traced_step) traced_step->made.erase(&impl);
}

void derived(const NodePtr& leaf, const NodePtr& from) {
  if (traced_step) traced_step->derived.emplace(leaf.get(), from);
}

void effect(std::function<void()> repeat) {
  if (traced_step) traced_step->actions.push_back({std::move(repeat), {}});
}

void source(const NodePtr& leaf, std::function<HostValue()> next) {
  if (!traced_step) return;
  traced_step->action_of.emplace(leaf.get(), traced_step->actions.size());
  traced_step->actions.push_back({{}, std::move(next)});
}

void refuse(const std::string& why) {
  if (traced_step) traced_step->refuse(why);
}

}  // namespace trace
}  // namespace heddle
