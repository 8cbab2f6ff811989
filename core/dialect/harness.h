// Harness: runs one kernel alone on a device: arrays in, arrays out.
//
// Purpose: to test and time a kernel body without tensors and graphs: Heddle's own in tests/kernels, a user's in his
// tests, and `heddle kernel FILE` on the command line. Guard bytes stand around each buffer: a kernel that writes
// outside, or into a buffer that it declared as input, is reported as an error with the buffer's name and the distance.
// Invariants: nothing stays on the device. Thread safety: as Device; DeviceContext::lock() gives one under its lock.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/dialect/kernel_text.h"

namespace heddle {

// A dense array in host memory.
struct KernelArray {
  DType dtype = DType::f32;
  std::vector<uint8_t> bytes;

  static KernelArray zeros(DType dtype, size_t count);
  // Values converted to `dtype`.
  static KernelArray of(DType dtype, const std::vector<double>& values);

  size_t size() const { return bytes.size() / size_of(dtype); }
  double operator[](size_t i) const { return load_element(bytes.data(), dtype, i); }
  std::vector<double> values() const;
};

using KernelArrays = std::map<std::string, KernelArray, std::less<>>;
using KernelConstants = std::map<std::string, double, std::less<>>;

struct KernelRun {
  KernelArrays arrays;                            // contents of each buffer before the run, outputs too
  KernelConstants constants;                      // one value for each
  std::optional<std::array<uint32_t, 3>> groups;  // else by the file's launch rule
  // With guard bytes around each buffer. Without, a buffer has its own bytes alone, rounded up to whole words: for a
  // device that checks accesses itself, reads as well, such as the executor of PTX.
  bool guards = true;
  int timed = 0;  // runs before the one that counts; KernelOutcome::seconds is the best of them
};

struct KernelOutcome {
  KernelArrays arrays;  // contents of each buffer after the run
  double seconds = 0;   // device time
  std::array<uint32_t, 3> groups{};
};

// Throws ValueError or DTypeError when arrays or constants do not fit the declaration (with a file: its `bounds` as
// well), CompileError from the device, and DeviceError "[kernel NAME] wrote 3 bytes behind the end of 'dst'".
KernelOutcome run_kernel(Device& device, const KernelSource& source, const KernelRun& run);
KernelOutcome run_kernel(Device& device, const KernelFile& file, const KernelFile::Options& options,
                         const KernelRun& run);
// A kernel in a language of its own; it needs `groups`. Further errors: those of compile_text().
KernelOutcome run_kernel(Device& device, const KernelText& text, const KernelRun& run);

}  // namespace heddle
