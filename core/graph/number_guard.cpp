#include "heddle/core/graph/number_guard.h"

#include "heddle/core/base/debug_switch.h"

namespace heddle {
namespace {

struct NumberTag {
  static constexpr const char* variable = "HEDDLE_CHECK_NUMBERS";
};
using Switch = DebugSwitch<NumberTag>;

}  // namespace

bool number_guard() { return Switch::on(); }
void set_number_guard(bool on) { Switch::set(on); }

NumberGuardScope::NumberGuardScope(bool on) : before_(Switch::exchange(on ? 1 : 0)) {}
NumberGuardScope::~NumberGuardScope() { Switch::exchange(before_); }

}  // namespace heddle
