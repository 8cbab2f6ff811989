// Builds programs: of OpenCL C through a cache of binaries on disk, or of a program that the driver gave before.
// HEDDLE_OPENCL_BINARIES=1 or 0 stores them or not; by default they are stored where the driver has no cache of its own
// (Quirk::caches_binaries).
// Thread safety: build() may be called from several threads.
#pragma once

#include <string>
#include <vector>

#include "heddle/backend_opencl/caps.h"
#include "heddle/backend_opencl/loader.h"
#include "heddle/core/base/cache_dir.h"
#include "heddle/core/contract/kernel_binary.h"

namespace heddle::opencl {

class ProgramBuilder {
 public:
  ProgramBuilder(cl_context context, const Found& found);
  // A built program; throws CompileError with the driver's log, in which the kernel's name stands for it.
  cl_program build(const KernelBinary& kernel);
  // Whether several threads build faster than one (Quirk::compiles_one_by_one): with PoCL 3.1 nine kernels of the MNIST
  // step took 1.59 s on two cores with one, two or three threads.
  bool parallel() const { return parallel_; }

 private:
  // Null where the driver does not take it.
  cl_program from_binary(const std::vector<uint8_t>& binary);
  cl_program from_text(const std::string& text, const std::string& name);
  cl_program from_source(const std::string& text, const std::string& name);
  struct Attempt {
    cl_program program;
    cl_int status;
  };
  Attempt compile(const std::string& text, const std::string& options);
  void keep_binary(cl_program program, const std::string& identity, const std::string& name);

  cl_context context_;
  cl_device_id device_;
  std::string id_;
  std::string options_;
  DiskCache cache_;
  bool keep_;
  bool parallel_;
  // Whether programs come with the declarations of shaders/prelude.pocl instead of clang's header of all functions
  // (_OPENCL_H_ is its guard; Quirk::reads_whole_header): 100 ms of the 165 that building a small kernel takes, 20 of
  // the 27 for one that PoCL's cache has.
  bool declares_;
};

// What the driver made of a program, for clCreateProgramWithBinary; empty where it does not say.
std::vector<uint8_t> binary_of(cl_program program);

}  // namespace heddle::opencl
