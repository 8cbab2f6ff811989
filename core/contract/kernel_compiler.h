// KernelCompiler: from a kernel in the dialect to what a device loads.
//
// Purpose: a backend is a loader (a Device, which takes KernelBinary) and a compiler, in two libraries: libheddle holds
// both, libheddle_runtime loaders only. A device that prints and compiles needs nothing of its own: LoadingDevice does
// it with the compiler of its target. Invariants: compile() is a function of source, caps and version(); what it makes
// is kept in the disk cache where that takes long. Thread safety: any thread, at the same time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/contract/device_info.h"
#include "heddle/core/contract/kernel_binary.h"

namespace heddle {

class KernelCompiler {
 public:
  virtual ~KernelCompiler() = default;
  // LimitError or DeviceError for a kernel that such a device cannot take, CompileError with the compiler's log.
  virtual KernelBinary compile(const KernelSource& source, const Caps& caps) const = 0;
  // Code that such a device loads, from a whole kernel in the target's own language (core/dialect/kernel_text.h) whose
  // entry point is called as KernelBinary wants it; `name` is for messages. CompileError with the compiler's log. The
  // default, for drivers that take text: the text.
  virtual std::vector<uint8_t> compile_text(const std::string& text, const std::string& name, const Caps& caps) const;
  // Why it cannot be used on this machine ("libnvrtc.so not found"); empty when it can.
  virtual std::string absent() const { return {}; }
  // Of what devices with this compiler are told apart by, beside their driver; "": nothing.
  virtual std::string version() const { return {}; }
  // Whose machine code it makes, by Caps::architecture, ascending; empty where that is no question.
  virtual std::vector<uint32_t> architectures() const { return {}; }
  // Whether it knows an extension of its language.
  virtual bool knows(std::string_view) const { return true; }
};

// The compiler for devices of that target; null where this program has none. Its definition decides what a library
// holds: CMake writes one for libheddle and one for libheddle_runtime (cmake/backends.cmake).
const KernelCompiler* builtin_compiler(Target target);

// compile() of that compiler; CompileError where there is none.
KernelBinary compile_kernel(const KernelSource& source, const Caps& caps);

}  // namespace heddle
