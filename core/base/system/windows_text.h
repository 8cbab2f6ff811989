// Texts between UTF-8 and what Windows takes; its errors as errno. Included by the files of this folder for Windows.
#pragma once

#include <windows.h>
// It needs the one above.
#include <shellapi.h>

#include <string>
#include <string_view>

namespace heddle::os {

std::wstring wide(std::string_view utf8);
std::string utf8(std::wstring_view wide);
// As `wide`, for calls on files: absolute paths of more than 247 characters get the prefix that allows them.
std::wstring wide_path(std::string_view utf8);
// errno of GetLastError().
void set_errno();
std::string last_error_text();

}  // namespace heddle::os
