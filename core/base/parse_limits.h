// The limits of what is parsed: JSON, TOML, expressions and parts of kernel files, texts of user kernels
// (docs/threats.md).
#pragma once

#include <cstddef>

namespace heddle {

// Brackets within brackets, keys within keys, parts that include parts. Deeper text is refused before anything recurses
// over it.
inline constexpr int max_parse_depth = 100;

// Bytes of texts that are small by nature.
inline constexpr size_t max_kernel_file_bytes = size_t{1} << 22;  // a .hk file, and the parts that it includes
inline constexpr size_t max_kernel_parts = 1000;
inline constexpr size_t max_user_text_bytes = size_t{1}
                                              << 16;  // of a user's kernel: drivers' compilers recurse over it
inline constexpr size_t max_toml_bytes = size_t{1} << 20;
inline constexpr size_t max_tuning_bytes = size_t{1} << 24;
inline constexpr size_t max_tuning_entries = 10'000;  // of a device: each is compared with all before it

}  // namespace heddle
