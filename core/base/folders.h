// What folders hold.
//
// Purpose: the standard's directory iterators take memory in functions that are noexcept: where there is none, the
// process ends without a word.
// Errors: an error code, empty where all was read; std::bad_alloc. Thread safety: may be called from any thread.
#pragma once

#include <string>
#include <system_error>
#include <vector>

namespace heddle {

// The names of a folder's entries in the order of their bytes, without "." and "..".
std::vector<std::string> names_in(const std::string& folder, std::error_code& error);

// The paths, each beginning with `folder`, of all regular files in it and in the folders below it, in the order of
// their bytes. Links to files count, links to folders do not.
std::vector<std::string> files_below(const std::string& folder, std::error_code& error);

}  // namespace heddle
