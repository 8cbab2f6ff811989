// Certificates: one row a kernel, compiler and architecture; how rows differ from those of a file; the page.
//
// Invariants: rows of the same kernel, case and architecture are told apart by their order ("matmul", "matmul 2").
// Errors: IoError for a file that holds no rows. Thread safety: plain values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/certify/model.h"
#include "tools/cli.h"

namespace heddle::tools::certify {

struct Certificate {
  std::string subject;  // the body or recipe that it was made for
  std::string kernel, kase, compiler, arch;
  std::string failure;  // the compiler's words; the figures are then none
  int64_t registers = 0, spill_bytes = 0, shared_bytes = 0;
  double occupancy = 0;
  std::optional<int64_t> instructions;  // none without a disassembler
  int64_t hot_loop_instructions = 0, hot_loop_math = 0;
  double density = 0;
  std::optional<double> predicted;  // fraction of peak
  std::string limit;
};

Certificate certificate_of(const Compiled& compiled, const GpuFamily& family);
Json to_json(const Certificate& c);
Certificate certificate_from(const Json& json);
std::string to_text(const Certificate& c);

// What --json prints: a line for each row, and one with sums and compilers.
struct Certificates {
  std::vector<Certificate> rows;
  std::vector<std::string> compilers;  // "amd: radv Mesa 22.3.6"
};
// Rows of several runs may stand one after the other: of equal kernels, cases and architectures the last one counts.
Certificates read_certificates(const std::string& path);

struct Change {
  std::string row;   // "matmul (1024x1024x1024 f32) on sm_80"
  std::string what;  // "registers 64 -> 72, density 0.75 -> 0.71"; "new", "gone"
};
// Rows of `before` on architectures that were compiled for now, and subjects that were asked for, are compared; those
// of others are left alone.
std::vector<Change> changes(const std::vector<Certificate>& before, const std::vector<Certificate>& now);

struct Summary {
  size_t kernels = 0, failed = 0, spilling = 0;
};
Summary summary_of(const std::vector<Certificate>& rows);
// docs/certificates.md.
std::string page(const Certificates& all);

}  // namespace heddle::tools::certify
