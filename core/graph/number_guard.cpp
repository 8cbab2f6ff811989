#include "heddle/core/graph/number_guard.h"

#include "heddle/core/base/debug_switch.h"

namespace heddle {
namespace {

struct NumberTag {
  static constexpr const char* variable = "HEDDLE_CHECK_NUMBERS";
};
using NumberSwitch = DebugSwitch<NumberTag>;

}  // namespace

bool number_guard() { return NumberSwitch::on(); }
void set_number_guard(bool on) { NumberSwitch::set(on); }

NumberGuardScope::NumberGuardScope(bool on) : before_(NumberSwitch::exchange(on ? 1 : 0)) {}
NumberGuardScope::~NumberGuardScope() { NumberSwitch::exchange(before_); }

}  // namespace heddle
