// sin, cos and tan of doubles as every Windows has them, in place of MinGW's: those are the x87's instructions, whose
// reduction by a pi of 66 bits gives wrong values for large arguments, and the reference device is the oracle of
// others. The linker finds these before it looks into MinGW's library.
#include "heddle/core/base/system/library.h"

namespace {

using Function = double (*)(double);

Function systems(const char* name) {
  static void* const library = heddle::os::open_library("msvcrt.dll");
  return reinterpret_cast<Function>(heddle::os::find_symbol(library, name));
}

}  // namespace

extern "C" double sin(double x) {
  static const Function function = systems("sin");
  return function(x);
}

extern "C" double cos(double x) {
  static const Function function = systems("cos");
  return function(x);
}

extern "C" double tan(double x) {
  static const Function function = systems("tan");
  return function(x);
}
