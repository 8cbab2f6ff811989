// A check that is off unless asked for: for all threads, first by an environment variable, and for one thread by a
// scope.
//
//   struct Numbers { static constexpr const char* variable = "HEDDLE_CHECK_NUMBERS"; };
//   using Switch = DebugSwitch<Numbers>;
//
// The variable is read once; empty and "0" are off. A null `variable`: programs alone switch it. Thread safety: the
// setting of all threads may be changed by any; a scope belongs to its thread.
#pragma once

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace heddle {

template <class Tag>
class DebugSwitch {
 public:
  static bool on() { return here < 0 ? everywhere().load(std::memory_order_relaxed) : here != 0; }
  static void set(bool on) { everywhere().store(on, std::memory_order_relaxed); }
  // This thread's setting: 0, 1, or -1 for that of all threads. Gives the one before.
  static signed char exchange(signed char now) {
    const signed char before = here;
    here = now;
    return before;
  }

 private:
  static std::atomic<bool>& everywhere() {
    static std::atomic<bool> setting = environment();
    return setting;
  }
  static bool environment() {
    if constexpr (Tag::variable == nullptr) {
      return false;
    } else {
      const char* value = std::getenv(Tag::variable);
      return value && *value && std::string_view(value) != "0";
    }
  }
  static inline thread_local signed char here = -1;
};

}  // namespace heddle
