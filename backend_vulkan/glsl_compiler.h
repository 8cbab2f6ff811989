// GLSL compiler: printed kernels -> SPIR-V, by glslang inside this process.
//
// Invariants: the output is SPIR-V 1.3 for Vulkan 1.1, which every device of this backend takes; it is a pure function
// of the text and of glslang's version. Thread safety: all functions may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

// Compiles a GLSL 4.50 compute shader with the entry point "main". Throws CompileError with glslang's log.
std::vector<uint32_t> compile_glsl(const std::string& text, const std::string& name);

// As compile_glsl, but looks in the disk cache first and keeps the result there. `from_cache` says where it came from.
std::vector<uint32_t> compile_glsl_cached(const std::string& text, const std::string& name, bool* from_cache = nullptr);

// The disk-cache file that compile_glsl_cached uses for this text; empty when there is no cache.
std::string glsl_cache_file(const std::string& text);

}  // namespace heddle
