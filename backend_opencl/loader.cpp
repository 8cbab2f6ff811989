#include "heddle/backend_opencl/loader.h"

#include <dlfcn.h>

namespace heddle::opencl {
namespace {

struct Loaded {
  Api api;
  std::string absent;
};

Loaded load() {
  Loaded result;
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) library = dlopen("libOpenCL.so", RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    result.absent = "libOpenCL.so.1 not found";
    return result;
  }
  auto find = [&](const char* name) {
    void* symbol = dlsym(library, name);
    if (!symbol && result.absent.empty()) result.absent = std::string("libOpenCL.so.1 lacks ") + name;
    return symbol;
  };
#define HEDDLE_CL_LOAD(name) result.api.name = reinterpret_cast<decltype(result.api.name)>(find("cl" #name));
  HEDDLE_CL_FUNCTIONS(HEDDLE_CL_LOAD)
#undef HEDDLE_CL_LOAD
  return result;
}

const Loaded& loaded() {
  static const Loaded* const result = new Loaded(load());  // leaked: used until the process is gone
  return *result;
}

}  // namespace

const Api* try_cl(std::string* absent) {
  const Loaded& l = loaded();
  if (l.absent.empty()) return &l.api;
  if (absent) *absent = l.absent;
  return nullptr;
}

const Api& cl() { return loaded().api; }

}  // namespace heddle::opencl
