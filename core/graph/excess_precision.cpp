#include "heddle/core/graph/excess_precision.h"

#include "heddle/core/base/debug_switch.h"

namespace heddle {
namespace {

struct Excess {
  static constexpr const char* variable = "HEDDLE_EXCESS_PRECISION";
};
using Switch = DebugSwitch<Excess>;

}  // namespace

bool excess_precision() { return Switch::on(); }
void set_excess_precision(bool on) { Switch::set(on); }

ExcessPrecisionScope::ExcessPrecisionScope(bool on) : before_(Switch::exchange(on ? 1 : 0)) {}
ExcessPrecisionScope::~ExcessPrecisionScope() { Switch::exchange(before_); }

}  // namespace heddle
