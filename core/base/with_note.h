// with_note(): errors of a device are thrown on with a note behind their text.
// Thread safety: pure function.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "heddle/core/base/error.h"

namespace heddle {

// f(); a kernel that was refused, and the loss of the device, are thrown on with note(the text) behind their text.
template <class F>
auto with_note(const F& f, const std::function<std::string(std::string_view)>& note) {
  const auto text = [&](const std::exception& error) { return error.what() + note(error.what()); };
  try {
    return f();
  } catch (const CompileError& error) {
    throw CompileError(text(error), error.log());
  } catch (const DeviceTimeout& error) {
    throw DeviceTimeout(text(error));
  } catch (const DeviceLost& error) {
    throw DeviceLost(text(error));
  }
}

}  // namespace heddle
