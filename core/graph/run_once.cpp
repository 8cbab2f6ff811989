#include "heddle/core/graph/run_once.h"

#include "heddle/core/base/debug_switch.h"

namespace heddle {
namespace {

struct RunOnceTag {
  static constexpr const char* variable = nullptr;  // a decision of the program, not of who starts it
};
using RunOnceSwitch = DebugSwitch<RunOnceTag>;

}  // namespace

bool run_once() { return RunOnceSwitch::on(); }
void set_run_once(bool on) { RunOnceSwitch::set(on); }

RunOnceScope::RunOnceScope(bool on) : before_(RunOnceSwitch::exchange(on ? 1 : 0)) {}
RunOnceScope::~RunOnceScope() { RunOnceSwitch::exchange(before_); }

}  // namespace heddle
