// Streams, and events between them.
#include <chrono>

#include "tests/fake_cuda/fake_driver.h"

using namespace heddle::fake_cuda;

namespace {

constexpr int questions = 64;  // by cuEventQuery, for a piece of work

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned) {
  ENTER("cuStreamCreate");
  state().streams.push_back(new Stream());
  *stream = reinterpret_cast<CUstream>(state().streams.back());
  ++state().live["stream"];
  return CUDA_SUCCESS;
}
CUresult cuStreamDestroy_v2(CUstream stream) {
  const Held held(state().mutex);
  std::erase(state().streams, &stream_of(stream));
  delete &stream_of(stream);
  --state().live["stream"];
  return CUDA_SUCCESS;
}
CUresult cuStreamSynchronize(CUstream stream) {
  ENTER("cuStreamSynchronize");
  return state().capture ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                         : run_while(held, [&] { return !stream_of(stream).queue.empty(); });
}
CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle, unsigned) {
  ENTER("cuStreamWaitEvent");
  Stream& stream = stream_of(handle);
  auto* event = reinterpret_cast<Event*>(event_handle);
  if (state().capture && event->node != -1) {  // the stream joins the capture
    if (!stream.capturing) stream.last.clear();
    stream.capturing = true;
    if (event->node >= 0) stream.last.insert(event->node);
    return CUDA_SUCCESS;
  }
  if (stream.capturing) return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  const int wanted = event->recorded;
  stream.queue.push_back({[] { return CUDA_SUCCESS; }, [event, wanted] { return event->finished >= wanted; }});
  return CUDA_SUCCESS;
}
CUresult cuEventCreate(CUevent* event, unsigned) {
  ENTER("cuEventCreate");
  *event = reinterpret_cast<CUevent>(new Event());
  ++state().live["event"];
  return CUDA_SUCCESS;
}
CUresult cuEventDestroy_v2(CUevent event) {
  const Held held(state().mutex);
  delete reinterpret_cast<Event*>(event);
  --state().live["event"];
  return CUDA_SUCCESS;
}
CUresult cuEventRecord(CUevent handle, CUstream stream) {
  ENTER("cuEventRecord");
  auto* event = reinterpret_cast<Event*>(handle);
  if (stream_of(stream).capturing) {  // an empty node stands for the place
    const CUresult result = enqueue(stream, [] { return CUDA_SUCCESS; });
    event->node = *stream_of(stream).last.begin();
    return result;
  }
  const int number = ++event->recorded;
  return enqueue(stream, [event, number] {
    const Held held_too(state().mutex);
    event->seconds = now();
    event->finished = number;
    return CUDA_SUCCESS;
  });
}
CUresult cuEventQuery(CUevent handle) {
  ENTER("cuEventQuery");
  // The device works while the host asks, if no other thread waits for it: a piece of work per so many questions, as
  // that of somebody who looks in passing must not take as long as the work.
  CUresult result = CUDA_SUCCESS;
  if (!state().working && ++state().asked % questions == 0 && run_one(held, &result) && result != CUDA_SUCCESS)
    return result;
  return reinterpret_cast<Event*>(handle)->pending() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}
CUresult cuEventSynchronize(CUevent handle) {
  ENTER("cuEventSynchronize");
  return run_while(held, [&] { return reinterpret_cast<Event*>(handle)->pending(); });
}
CUresult cuEventElapsedTime(float* milliseconds, CUevent from, CUevent to) {
  ENTER("cuEventElapsedTime");
  auto *a = reinterpret_cast<Event*>(from), *b = reinterpret_cast<Event*>(to);
  if (a->pending() || b->pending()) return CUDA_ERROR_NOT_READY;
  *milliseconds = static_cast<float>((b->seconds - a->seconds) * 1e3);
  return CUDA_SUCCESS;
}

}  // extern "C"
