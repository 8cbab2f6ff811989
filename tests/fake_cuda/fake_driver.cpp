#include "tests/fake_cuda/fake_driver.h"

namespace heddle::fake_cuda {
namespace {

thread_local bool context_is_current = false;

}  // namespace

State& state() {
  static auto* s = new State();
  return *s;
}

void make_context_current(bool current) { context_is_current = current; }

CUresult enter(const char* symbol, bool needs_context) {
  State& s = state();
  ++s.calls[symbol];
  if (auto found = s.failures.find(symbol); found != s.failures.end()) {
    int code = found->second;
    s.failures.erase(found);
    return static_cast<CUresult>(code);
  }
  if (needs_context && !context_is_current) return CUDA_ERROR_INVALID_CONTEXT;
  return s.sticky;
}

Stream& stream_of(CUstream handle) { return *reinterpret_cast<Stream*>(handle); }

CUresult enqueue(CUstream handle, Work work) {
  Stream& stream = stream_of(handle);
  if (stream.capturing) {
    state().capture->nodes.push_back({std::move(work), stream.last});
    stream.last = {static_cast<int>(state().capture->nodes.size()) - 1};
  } else {
    stream.queue.push_back({std::move(work), {}});
  }
  return CUDA_SUCCESS;
}

bool run_one(Held& held, CUresult* result) {
  State& s = state();
  for (auto stream = s.streams.rbegin(); stream != s.streams.rend(); ++stream) {
    std::deque<Item>& queue = (*stream)->queue;
    if (queue.empty() || (queue.front().ready && !queue.front().ready())) continue;
    const Work work = std::move(queue.front().run);
    queue.pop_front();
    s.working = true;
    held.unlock();
    *result = work();
    held.lock();
    s.working = false;
    s.rested.notify_all();
    if (*result != CUDA_SUCCESS && *result != ptx_fault) s.sticky = *result;
    return true;
  }
  return false;
}

void wait_for_rest(Held& held) {
  state().rested.wait(held, [] { return !state().working; });
}

CUresult run_while(Held& held, const std::function<bool()>& busy) {
  for (;;) {
    wait_for_rest(held);
    if (!busy()) break;
    CUresult result = CUDA_SUCCESS;
    if (!run_one(held, &result)) return CUDA_ERROR_UNKNOWN;  // streams wait for each other
    if (result != CUDA_SUCCESS) return result;
  }
  return state().sticky;
}

CUresult reported(const std::exception& error) {
  const Held held(state().mutex);
  state().fault = error.what();
  return ptx_fault;
}

}  // namespace heddle::fake_cuda
