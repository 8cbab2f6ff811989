// Names by a shell's patterns (POSIX.1, "Pattern Matching Notation"; fnmatch(3), which not every system has).
//
// * is any bytes, ? one, [a-z_] one of a set, [!a-z] one that is not in it; \ takes the next as it is, and fits nothing
// at the end. A [ without its ] is itself. Invariants: time at most the product of both lengths. Thread safety: pure.
#pragma once

#include <string_view>

namespace heddle {

bool fits_pattern(std::string_view name, std::string_view pattern);

}  // namespace heddle
