#include "heddle/backend_opencl/loader.h"

#include "heddle/core/base/system/library.h"

namespace heddle::opencl {
namespace {

struct Loaded {
  Api api;
  std::string absent;
};

Loaded load() {
  Loaded result;
  const std::string name = os::names_of(os::Vendor::opencl).front().name;
  void* library = os::open_library(os::Vendor::opencl);
  if (!library) {
    result.absent = name + " not found";
    return result;
  }
  auto find = [&](const char* function) {
    void* symbol = os::find_symbol(library, function);
    if (!symbol && result.absent.empty()) result.absent = name + " lacks " + function;
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
