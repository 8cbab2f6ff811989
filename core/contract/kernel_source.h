// KernelSource: one compute kernel in the Heddle dialect, complete and free of any target.
//
// Purpose: what core hands to a device. The dialect printer (core/dialect/printer.h) turns it into GLSL, OpenCL C or
// CUDA C++; a device compiles that text. Invariants: everything that changes the generated code is in here, so
// hash() is the key of every kernel cache; two sources with equal hash() are the same kernel.
// Thread safety: plain value.
//
// The language itself, with all macros a body may use, is described in shaders/README.md.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/dtype.h"

namespace heddle {

enum class Access : uint8_t { read, write, read_write };

// One storage buffer. The body reads it with LOAD(name, i) and writes it with STORE(name, i, v); i counts elements.
struct BufferParam {
  std::string name;
  DType dtype = DType::f32;
  Access access = Access::read;
  // True when another buffer of the kernel may be bound to overlapping memory (in-place updates): no `restrict`.
  bool may_alias = false;
  // True when the kernel touches parts of the range only, which it finds in a table: bytes between them may be
  // anybody's. Not part of the text.
  bool scattered = false;
  bool operator==(const BufferParam&) const = default;
};

// One 32-bit scalar constant, passed at launch. All constants of a kernel fit in 128 bytes.
struct ConstParam {
  enum class Type : uint8_t { u32, i32, f32 };
  std::string name;
  Type type = Type::u32;
};

// One array shared by the lanes of a group.
struct SharedParam {
  std::string name;
  std::string type = "float";  // float, uint or int
  uint32_t count = 0;
};

// Shared arrays of more than that in all are dynamic in CUDA: the launch gives shared_bytes(source).
constexpr uint64_t static_shared_bytes = 49152;

struct KernelSource {
  static constexpr size_t max_constants = 32;  // 128 bytes

  std::string name;  // identifier, for logs and profilers
  std::vector<BufferParam> buffers;
  std::vector<ConstParam> constants;
  std::vector<SharedParam> shared;
  std::array<uint32_t, 3> group{1, 1, 1};  // lanes per group
  // Preprocessor definitions placed before the body: tunables ("TM", "64") and hooks ("EPILOGUE(x, m, n)", "...").
  // A value may span several lines.
  std::vector<std::pair<std::string, std::string>> defines;
  std::string body;                  // statements of the kernel (what stands between the braces), and nothing else
  std::string helpers;               // functions and macros that stand before the kernel; may be empty
  std::string origin = "generated";  // file for error messages, e.g. "shaders/matmul.hk"
  int first_line = 1;                // line of the body's first line in `origin`

  uint64_t hash() const;
  // Human-readable form: signature, defines and body (HEDDLE_DEBUG=4, `heddle kernel --print source`).
  std::string str() const;
};

// Of one shared array, padded: each starts at a multiple of 16 bytes.
uint64_t array_bytes(const SharedParam& array);
// Of all of them.
uint64_t shared_bytes(const KernelSource& source);

}  // namespace heddle
