// Handle: a handle of Windows, closed at the end of its life. Included by the files of this folder for Windows.
#pragma once

#include "heddle/core/base/system/windows_text.h"

namespace heddle::os {

struct Handle {
  HANDLE handle = nullptr;  // null, or INVALID_HANDLE_VALUE as CreateFileW says it: none
  Handle() = default;
  explicit Handle(HANDLE taken) : handle(taken) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { close(); }
  bool open() const { return handle != nullptr && handle != INVALID_HANDLE_VALUE; }
  void close() {
    if (open()) CloseHandle(handle);
    handle = nullptr;
  }
};

}  // namespace heddle::os
