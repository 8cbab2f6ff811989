#include <dlfcn.h>
#include <link.h>

#include <cstdlib>

#include "heddle/core/base/system/library.h"

namespace heddle::os {

const char* const library_suffix = ".so";

void* open_library(const std::string& name, std::string* reason) {
  void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr && reason != nullptr) {
    const char* text = ::dlerror();
    *reason = text != nullptr ? text : "unknown reason";
  }
  return library;
}

void* loaded_library(const std::string& name) { return ::dlopen(name.c_str(), RTLD_NOW | RTLD_NOLOAD); }

void close_library(void* library) { ::dlclose(library); }

void* find_symbol(void* library, const char* name) { return ::dlsym(library, name); }

std::string file_of_code(const void* address) {
  Dl_info info{};
  link_map* object = nullptr;
  ::dladdr1(address, &info, reinterpret_cast<void**>(&object), RTLD_DL_LINKMAP);
  const bool program = object == nullptr || object->l_name[0] == '\0';
  return program ? "/proc/self/exe" : object->l_name;
}

unsigned long long unloaded_libraries() {
  unsigned long long count = 0;
  const auto first = [](dl_phdr_info* info, size_t, void* result) {
    *static_cast<unsigned long long*>(result) = info->dlpi_subs;
    return 1;
  };
  ::dl_iterate_phdr(first, &count);
  return count;
}

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  const auto each = [](dl_phdr_info* info, size_t, void* result) {
    static_cast<std::vector<std::string>*>(result)->emplace_back(info->dlpi_name);
    return 0;
  };
  ::dl_iterate_phdr(each, &paths);
  return paths;
}

// NODELETE makes the later dlclose() of whoever opened it cheap as well.
bool keep_loaded(const std::string& path) {
  return ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

std::span<const LibraryName> names_of(Vendor vendor) {
  static constexpr LibraryName opencl[] = {{1, "libOpenCL.so.1"}, {0, "libOpenCL.so"}};
  static constexpr LibraryName vulkan[] = {{1, "libvulkan.so.1"}, {0, "libvulkan.so"}};
  static constexpr LibraryName cuda[] = {{1, "libcuda.so.1"}};
  static constexpr LibraryName nvrtc[] = {
      {13, "libnvrtc.so.13"}, {12, "libnvrtc.so.12"}, {11, "libnvrtc.so.11.2"}, {0, "libnvrtc.so"}};
  static constexpr LibraryName cublas[] = {
      {13, "libcublas.so.13"}, {12, "libcublas.so.12"}, {11, "libcublas.so.11"}, {0, "libcublas.so"}};
  static constexpr LibraryName mpi[] = {{40, "libmpi.so.40"}, {12, "libmpich.so.12"}, {12, "libmpi.so.12"}};
  static constexpr std::span<const LibraryName> names[] = {opencl, vulkan, cuda, nvrtc, cublas, mpi};  // as in Vendor
  return names[static_cast<size_t>(vendor)];
}

std::vector<std::string> toolkit_folders() {
  std::vector<std::string> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* folder = std::getenv(variable)) folders.push_back(std::string(folder) + "/lib64/");
  }
  folders.emplace_back("/usr/local/cuda/lib64/");
  return folders;
}

std::vector<std::string> driver_folders(Vendor vendor) {
  const char* const vendors = std::getenv("OCL_ICD_VENDORS");
  if (vendor == Vendor::opencl) return {vendors != nullptr ? vendors : "/etc/OpenCL/vendors"};
  if (vendor != Vendor::vulkan) return {};
  return {"/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/share/vulkan/implicit_layer.d"};
}

}  // namespace heddle::os
