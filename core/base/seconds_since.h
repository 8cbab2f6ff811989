// How long ago something was. Thread safety: pure.
#pragma once

#include <chrono>

namespace heddle {

inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace heddle
