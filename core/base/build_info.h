// What this library was built from: version, commit, compiler. Implemented by a file that the build generates
// (cmake/build_info.cmake). Thread safety: pure.
#pragma once

#include <string_view>

namespace heddle {

std::string_view library_version();  // "0.1.0"
// "f754c6e0a1b2", with "-dirty" behind it where files differed from the commit; "unknown" outside a git checkout.
std::string_view source_commit();
std::string_view compiler_version();

}  // namespace heddle
