#include <chrono>
#include <cstdlib>
#include <thread>

#include "heddle/core/base/system/sacrifice.h"
#include "heddle/core/base/system/windows_text.h"

namespace heddle::os {

void expect_to_die(unsigned seconds) {
  SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
  std::thread([seconds] {
    std::this_thread::sleep_for(std::chrono::seconds(seconds));
    std::_Exit(1);
  }).detach();
}

}  // namespace heddle::os
