// The process in which RADV compiles for a family of AMD GPUs on null hardware: the driver reads its variables once,
// and may die of a kernel.
//
// Lines of JSON: {"spirv": [words], "bindings": n, "constant_bytes": n} -> {"statistics": {name: number}, "isa": text},
// or {"error": text}. Thread safety: none.
#pragma once

#include <string>

namespace heddle::tools::certify {

// Answers requests until standard input ends; the first line says {"ready": driver} or {"error": text}.
void run_radv_worker(const std::string& family);

}  // namespace heddle::tools::certify
