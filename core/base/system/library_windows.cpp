#include <cstdlib>

#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/windows_text.h"

namespace heddle::os {

const char* const library_suffix = ".dll";

void* open_library(const std::string& name, std::string* reason) {
  void* const library = reinterpret_cast<void*>(LoadLibraryW(wide(name).c_str()));
  if (library == nullptr && reason != nullptr) *reason = name + ": " + last_error_text();
  return library;
}

void* loaded_library(const std::string& name) {
  HMODULE module = nullptr;
  GetModuleHandleExW(0, wide(name).c_str(), &module);
  return reinterpret_cast<void*>(module);
}

void close_library(void* library) { FreeLibrary(reinterpret_cast<HMODULE>(library)); }

void* find_symbol(void* library, const char* name) {
  return reinterpret_cast<void*>(GetProcAddress(reinterpret_cast<HMODULE>(library), name));
}

std::string file_of_code(const void* address) {
  HMODULE module = nullptr;
  GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                     static_cast<const wchar_t*>(address), &module);
  std::wstring path(32768, L'\0');
  path.resize(GetModuleFileNameW(module, path.data(), static_cast<DWORD>(path.size())));
  return utf8(path);
}

// Windows counts none, and no driver here unloads its kernels.
unsigned long long unloaded_libraries() { return 0; }
std::vector<std::string> loaded_libraries() { return {}; }
bool keep_loaded(const std::string&) { return false; }

std::span<const LibraryName> names_of(Vendor vendor) {
  static constexpr LibraryName opencl[] = {{1, "OpenCL.dll"}};
  static constexpr LibraryName vulkan[] = {{1, "vulkan-1.dll"}};
  static constexpr LibraryName cuda[] = {{1, "nvcuda.dll"}};
  static constexpr LibraryName nvrtc[] = {
      {13, "nvrtc64_130_0.dll"}, {12, "nvrtc64_120_0.dll"}, {11, "nvrtc64_112_0.dll"}};
  static constexpr LibraryName cublas[] = {{13, "cublas64_13.dll"}, {12, "cublas64_12.dll"}, {11, "cublas64_11.dll"}};
  static constexpr LibraryName mpi[] = {{12, "impi.dll"}, {12, "msmpi.dll"}};
  static constexpr std::span<const LibraryName> names[] = {opencl, vulkan, cuda, nvrtc, cublas, mpi};  // as in Vendor
  return names[static_cast<size_t>(vendor)];
}

// From CUDA 13 on in a folder for the architecture.
std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    const wchar_t* const folder = _wgetenv(wide(variable).c_str());
    if (folder == nullptr) continue;
    folders.push_back(utf8(folder) + "\\bin\\x64\\");
    folders.push_back(utf8(folder) + "\\bin\\");
  }
  return folders;
}

// The registry names them.
std::vector<std::string> driver_folders(Vendor) { return {}; }

}  // namespace heddle::os
