// NVRTC: CUDA C++ text -> PTX or machine code, with the library opened at run time.
//
// Purpose: compiles what the printer makes for Target::cuda. Works on a machine without a GPU, so that every kernel can
// be checked anywhere. The library is searched as libnvrtc.so.13, .12, .11.2 by the dynamic linker, then in CUDA_HOME,
// CUDA_PATH and /usr/local/cuda; where a driver is present, a library that is not newer than it is preferred.
// Invariants: the library is opened once. Thread safety: all functions may be called from any thread (NVRTC locks).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::cuda {

// False, with the reason in *absent, where there is no NVRTC.
bool have_nvrtc(std::string* absent = nullptr);
// "13.0"; empty without NVRTC.
std::string nvrtc_version();
// Compute capabilities that it makes machine code for, ascending; empty without NVRTC.
std::vector<uint32_t> nvrtc_architectures();

// What NVRTC calls the capability: "80"; "90a" for 90, whose one architecture has instructions (wgmma) that no later
// one takes over. NVRTC 11 knows "90" alone.
std::string architecture_name(int sm);

// HEDDLE_CUDA_LINES: compiled kernels carry the lines of their text, for profilers and for the tests' executor of PTX.
bool with_lines();

// PTX for compute capability `sm` (75, 80, 90, ...). `name` stands for the kernel in the log. Throws CompileError with
// NVRTC's log, or DeviceUnavailable without NVRTC.
std::string compile_ptx(const std::string& text, const std::string& name, int sm);
// Machine code for exactly that capability where this NVRTC knows it, else PTX for the next lower one that it knows.
// Either can be given to cuModuleLoadData.
std::string compile_module(const std::string& text, const std::string& name, int sm);

// What the assembler says about the kernel "heddle_kernel" on that capability.
struct KernelResources {
  int registers = 0;                      // of a lane
  int shared_bytes = 0;                   // of a group, static arrays only
  int stack_bytes = 0;                    // of a lane: arrays that are indexed at run time, and spills
  int spill_stores = 0, spill_loads = 0;  // bytes
  std::string code;                       // the cubin
};
// Compiles for exactly `sm`. Throws CompileError as compile_ptx does, DeviceError when the log has another form.
KernelResources kernel_resources(const std::string& text, const std::string& name, int sm);

}  // namespace heddle::cuda
