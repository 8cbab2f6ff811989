// The fuzz targets under libFuzzer: HEDDLE_FUZZ_TARGET names the one (tools/fuzz.sh).
#include <cstdlib>

#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const heddle::fuzz::Target* target = [] {
    const char* name = std::getenv("HEDDLE_FUZZ_TARGET");
    const heddle::fuzz::Target* found = heddle::fuzz::find_target(name != nullptr ? name : "");
    heddle::fuzz::require(found != nullptr, "HEDDLE_FUZZ_TARGET names no target");
    return found;
  }();
  heddle::fuzz::run_target(*target, {data, size});
  return 0;
}
