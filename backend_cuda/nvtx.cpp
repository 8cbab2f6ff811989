#include "heddle/backend_cuda/nvtx.h"

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define HEDDLE_NVTX 1
#else
#define HEDDLE_NVTX 0
#endif

#include <cstdlib>

#include "heddle/core/base/host_span.h"

namespace heddle::cuda::nvtx {

#if HEDDLE_NVTX

namespace {

class Spans final : public SpanListener {
 public:
  void begin(const char* name) noexcept override { nvtxRangePushA(name); }
  void end() noexcept override { nvtxRangePop(); }
};

}  // namespace

bool active() {
  static const bool listened = [] {
    const char* tool = std::getenv("NVTX_INJECTION64_PATH");
    if (!tool || !*tool) return false;
    static Spans& spans = *new Spans();  // spans end until the process does
    add_span_listener(spans);
    return true;
  }();
  return listened;
}

Range::Range(const char* name) : opened_(active()) {
  if (opened_) nvtxRangePushA(name);
}

Range::~Range() {
  if (opened_) nvtxRangePop();
}

#else

bool active() { return false; }
Range::Range(const char*) : opened_(false) {}
Range::~Range() = default;

#endif

}  // namespace heddle::cuda::nvtx
