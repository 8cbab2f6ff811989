#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdlib>

#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/windows_text.h"

namespace heddle::os {
namespace {

std::string registry_text(const wchar_t* key, const wchar_t* name) {
  std::wstring text(256, L'\0');
  DWORD bytes = static_cast<DWORD>(text.size() * sizeof(wchar_t));
  if (RegGetValueW(HKEY_LOCAL_MACHINE, key, name, RRF_RT_REG_SZ, nullptr, text.data(), &bytes) != ERROR_SUCCESS)
    return {};
  text.resize(bytes / sizeof(wchar_t));
  while (!text.empty() && text.back() == L'\0') text.pop_back();
  return utf8(text);
}

constexpr const wchar_t* system_key = L"SOFTWARE\\Microsoft\\Windows NT\\CurrentVersion";

}  // namespace

const char list_separator = ';';
const char* const program_suffix = ".exe";

uint64_t memory_bytes() {
  MEMORYSTATUSEX status{};
  status.dwLength = sizeof status;
  return GlobalMemoryStatusEx(&status) ? status.ullTotalPhys : 0;
}

std::string host_name() {
  std::wstring name(MAX_COMPUTERNAME_LENGTH + 1, L'\0');
  DWORD count = static_cast<DWORD>(name.size());
  return GetComputerNameW(name.data(), &count) ? utf8({name.data(), count}) : std::string();
}

std::string system_name() {
  return fmt::format("Windows {} {} x86_64", registry_text(system_key, L"CurrentVersion"),
                     registry_text(system_key, L"CurrentBuild"));
}

std::string processor_name() {
  return registry_text(L"HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0", L"ProcessorNameString");
}

std::string system_stamp() { return system_name(); }

bool hold_on_machine(const char*) { return true; }

int process_id() { return static_cast<int>(GetCurrentProcessId()); }

std::string program_file() { return file_of_code(nullptr); }

std::vector<std::string> arguments(int, char**) { return command_line(); }

std::vector<std::string> command_line() {
  int count = 0;
  wchar_t** const words = CommandLineToArgvW(GetCommandLineW(), &count);
  std::vector<std::string> all;
  for (int i = 0; i < count; ++i) all.push_back(utf8(words[i]));
  LocalFree(words);
  return all;
}

std::vector<std::string> variables() {
  std::vector<std::string> all;
  wchar_t* const block = GetEnvironmentStringsW();
  for (const wchar_t* entry = block; *entry != L'\0'; entry += std::wstring_view(entry).size() + 1) {
    if (*entry != L'=') all.push_back(utf8(entry));  // those with '=' are folders of drives
  }
  FreeEnvironmentStringsW(block);
  return all;
}

// Of the process: the standard library has a copy, in the code page of its start and without what is set to nothing.
std::optional<std::string> variable(const char* name) {
  const std::wstring key = wide(name);
  for (std::wstring text(256, L'\0');;) {
    SetLastError(ERROR_SUCCESS);
    const DWORD count = GetEnvironmentVariableW(key.c_str(), text.data(), static_cast<DWORD>(text.size()));
    if (count == 0 && GetLastError() != ERROR_SUCCESS) return std::nullopt;
    const bool whole = count < text.size();
    text.resize(count);
    if (whole) return utf8(text);
  }
}

// The copy first: it takes what is set to nothing away from the process as well.
void set_variable(const char* name, const std::optional<std::string>& value) {
  const std::wstring key = wide(name), text = wide(value.value_or(""));
  _wputenv_s(key.c_str(), text.c_str());
  SetEnvironmentVariableW(key.c_str(), value ? text.c_str() : nullptr);
}

std::string user_cache_folder() {
  std::string path = variable("LOCALAPPDATA").value_or("");
  std::replace(path.begin(), path.end(), '\\', '/');
  return path;
}

void* allocate_aligned(size_t alignment, size_t bytes) { return _aligned_malloc(bytes, alignment); }
void free_aligned(void* memory) { _aligned_free(memory); }

// Windows gives large pages to those alone who may lock memory.
void prefer_large_pages(void*, size_t) {}

bool is_failed_mapping(const void* mapping) { return mapping == reinterpret_cast<const void*>(intptr_t{-1}); }

}  // namespace heddle::os
