#include "heddle/backend_opencl/program.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "heddle/backend_opencl/build_log.h"
#include "heddle/backend_opencl/declarations.h"
#include "heddle/backend_opencl/pocl_llvm.h"
#include "heddle/backend_opencl/status.h"
#include "heddle/core/base/error.h"

namespace heddle::opencl {
namespace {

// No -cl-fast-relaxed-math and no -cl-finite-math-only: NaN and infinity keep their meaning.
// Subnormals are flushed, as GPUs do: on a CPU driver each one costs a microcode assist, and the moments of an
// optimizer decay into them (MNIST with Adam, 2 cores, PoCL 3.1: median step 0.50 ms with subnormals, 0.34 ms without).
// No warnings: PoCL counts them on the process's stderr ("1 warning generated."), and nobody sees what they say.
std::string build_options(int c_version) {
  const std::string standard = c_version >= 300 ? "CL3.0" : c_version >= 200 ? "CL2.0" : "CL1.2";
  return "-cl-std=" + standard + " -cl-denorms-are-zero -w";
}

std::string build_log(cl_program program, cl_device_id device) {
  size_t bytes = 0;
  if (cl().GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes) != CL_SUCCESS || bytes == 0)
    return {};
  std::string log(bytes, '\0');
  cl().GetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log;
}

// The line of a log that says most: the first with "error", else the first.
std::string headline(const std::string& log) {
  size_t at = log.find("error");
  size_t from = at == std::string::npos ? 0 : log.rfind('\n', at) + 1;
  return log.substr(from, log.find('\n', from) - from);
}

std::atomic<size_t> whole_header_builds{0};

// Quirk::caches_binaries: the MNIST step's nine kernels took 6.0 instead of 3.5 s in PoCL's first process and 0.05
// instead of 0.24 s in the next. So there the first run counts for more.
bool keeps_binaries(const Found& found) {
  if (const char* asked = std::getenv("HEDDLE_OPENCL_BINARIES")) return std::string_view(asked) != "0";
  return !found.quirks.has(Quirk::caches_binaries);
}

}  // namespace

ProgramBuilder::ProgramBuilder(cl_context context, const Found& found)
    : context_(context),
      device_(found.device),
      id_(found.info.id),
      options_(build_options(found.c_version)),
      cache_("opencl", found.info.caps.driver_hash),
      keep_(keeps_binaries(found)),
      parallel_(!found.quirks.has(Quirk::compiles_one_by_one)),
      declares_(found.quirks.has(Quirk::reads_whole_header)) {
  if (found.quirks.has(Quirk::contracts_freely)) options_ += " -DHK_NO_CONTRACTION";
  if (found.quirks.has(Quirk::sinks_instructions) || found.quirks.has(Quirk::unswitches_vectors)) {
    restrain_llvm();
    options_ += " -DHK_RESTRAINED_LLVM";  // PoCL's own cache knows of options alone
  }
}

cl_program ProgramBuilder::build(const KernelBinary& kernel) {
  const std::string& name = kernel.signature.name;
  if (kernel.kind == KernelBinary::Kind::opencl_c) return from_text({kernel.bytes.begin(), kernel.bytes.end()}, name);
  if (cl_program program = from_binary(kernel.bytes)) return program;
  throw CompileError(
      fmt::format("[load] {}: clBuildProgram of kernel {}: the driver refuses the program that it is given", id_, name),
      "");
}

cl_program ProgramBuilder::from_text(const std::string& text, const std::string& name) {
  const std::string identity = options_ + "\n" + text;
  const auto kept = cache_.load(identity);
  if (cl_program cached = kept && !kept->empty() ? from_binary(*kept) : nullptr) return cached;
  cl_program program = from_source(text, name);
  keep_binary(program, identity, name);
  return program;
}

cl_program ProgramBuilder::from_binary(const std::vector<uint8_t>& binary) {
  const unsigned char* data = binary.data();
  size_t bytes = binary.size();
  cl_int status = CL_SUCCESS, binary_status = CL_SUCCESS;
  cl_program program = cl().CreateProgramWithBinary(context_, 1, &device_, &bytes, &data, &binary_status, &status);
  if (!program || status != CL_SUCCESS || binary_status != CL_SUCCESS) {
    if (program) cl().ReleaseProgram(program);
    return nullptr;
  }
  if (cl().BuildProgram(program, 1, &device_, options_.c_str(), nullptr, nullptr) == CL_SUCCESS) return program;
  cl().ReleaseProgram(program);
  return nullptr;
}

cl_program ProgramBuilder::from_source(const std::string& text, const std::string& name) {
  if (declares_) {
    // What the declarations lack, such as a function that only a user's kernel calls, the whole header has.
    const Attempt attempt = compile(std::string(opencl_declarations().front().text) + text, options_ + " -D_OPENCL_H_");
    if (attempt.status == CL_SUCCESS) return attempt.program;
    cl().ReleaseProgram(attempt.program);
  }
  const Attempt attempt = compile(text, options_);
  if (attempt.status == CL_SUCCESS) {
    if (declares_) ++whole_header_builds;
    return attempt.program;
  }
  const std::string log = by_line_directives(build_log(attempt.program, device_), text);
  cl().ReleaseProgram(attempt.program);
  throw CompileError(fmt::format("[compile] {}: clBuildProgram of kernel {}: {}: {}", id_, name,
                                 status_text(attempt.status), headline(log)),
                     log);
}

ProgramBuilder::Attempt ProgramBuilder::compile(const std::string& text, const std::string& options) {
  const char* data = text.data();
  size_t bytes = text.size();
  cl_int status = CL_SUCCESS;
  cl_program program = cl().CreateProgramWithSource(context_, 1, &data, &bytes, &status);
  check(status, "clCreateProgramWithSource");
  return {program, cl().BuildProgram(program, 1, &device_, options.c_str(), nullptr, nullptr)};
}

void ProgramBuilder::keep_binary(cl_program program, const std::string& identity, const std::string& name) {
  if (!keep_ || cache_.path(identity).empty()) return;
  const std::vector<uint8_t> binary = binary_of(program);
  if (!binary.empty()) cache_.store(identity, binary.data(), binary.size(), name);
}

std::vector<uint8_t> binary_of(cl_program program) {
  size_t bytes = 0;
  if (cl().GetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr) != CL_SUCCESS || bytes == 0)
    return {};
  std::vector<uint8_t> binary(bytes);
  unsigned char* target = binary.data();
  if (cl().GetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof target, &target, nullptr) != CL_SUCCESS) return {};
  return binary;
}

}  // namespace heddle::opencl

namespace heddle {

size_t opencl_builds_with_whole_header() { return opencl::whole_header_builds; }

}  // namespace heddle
