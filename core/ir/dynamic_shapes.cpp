#include "heddle/core/ir/dynamic_shapes.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "heddle/core/base/print_error.h"

namespace heddle {
namespace {

DynamicShapes mode_at_start() {
  const char* given = std::getenv("HEDDLE_DYNAMIC_SHAPES");
  const std::string_view value = given ? given : "";
  if (value == "never") return DynamicShapes::never;
  if (value == "always") return DynamicShapes::always;
  if (value != "" && value != "automatic") {
    print_error("heddle: HEDDLE_DYNAMIC_SHAPES is '{}', expected automatic, never or always: automatic\n", value);
  }
  return DynamicShapes::automatic;
}

std::atomic<DynamicShapes>& mode() {
  static std::atomic<DynamicShapes> instance{mode_at_start()};
  return instance;
}

}  // namespace

DynamicShapes dynamic_shapes() { return mode().load(std::memory_order_relaxed); }
void set_dynamic_shapes(DynamicShapes wanted) { mode().store(wanted, std::memory_order_relaxed); }

}  // namespace heddle
