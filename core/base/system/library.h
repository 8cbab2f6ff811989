// Dynamic libraries: opened by name, what they hold, which are loaded; and what vendors' libraries are called here.
//
// Errors: null or empty, with the reason where it is asked for. Thread safety: may be called from any thread.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace heddle::os {

// Opened at once and with symbols of its own; null where it cannot be. It stays until close_library().
void* open_library(const std::string& name, std::string* reason = nullptr);
// Only where the process has it already.
void* loaded_library(const std::string& name);
void close_library(void* library);
// Null where the library has no such symbol.
void* find_symbol(void* library, const char* name);

// What holds the code at that address: the file of a library or of the program.
std::string file_of_code(const void* address);

// How often a library was unloaded since the process began, as far as the system counts it.
unsigned long long unloaded_libraries();
// Files of the libraries that are loaded, as far as the system tells.
std::vector<std::string> loaded_libraries();
// A loaded library stays until the process ends; false where it is no longer loaded.
bool keep_loaded(const std::string& path);

// ---- names ----

enum class Vendor { opencl, vulkan, cuda, nvrtc, cublas, mpi };
struct LibraryName {
  int version;  // its major one; 0 where the name tells none
  const char* name;
};
// To be tried in this order; never empty.
std::span<const LibraryName> names_of(Vendor vendor);
// The first of those names that can be opened; null where none can.
void* open_library(Vendor vendor);
// Folders beside the system's own where a CUDA toolkit may lie; each ends with a separator.
std::vector<std::string> toolkit_folders();
// Folders with the files that name installed drivers of OpenCL and Vulkan.
std::vector<std::string> driver_folders(Vendor vendor);

// What the file names of back ends that are loaded at run time end with.
extern const char* const library_suffix;

}  // namespace heddle::os
