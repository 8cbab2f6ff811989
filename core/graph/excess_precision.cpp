#include "heddle/core/graph/excess_precision.h"

#include "heddle/core/base/debug_switch.h"

namespace heddle {
namespace {

struct Excess {
  static constexpr const char* variable = "HEDDLE_EXCESS_PRECISION";
};
using PrecisionSwitch = DebugSwitch<Excess>;

}  // namespace

bool excess_precision() { return PrecisionSwitch::on(); }
void set_excess_precision(bool on) { PrecisionSwitch::set(on); }

ExcessPrecisionScope::ExcessPrecisionScope(bool on) : before_(PrecisionSwitch::exchange(on ? 1 : 0)) {}
ExcessPrecisionScope::~ExcessPrecisionScope() { PrecisionSwitch::exchange(before_); }

}  // namespace heddle
