#include "heddle/backend_opencl/loader.h"

#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/threads.h"

namespace heddle::opencl {
namespace {

struct Loaded {
  Api api;
  std::string absent;
};

// PoCL's workers sleep between launches, and Linux may wake both on one processor while another has nothing to do:
// bound to one each they are there at once. Where the user has said how many there are, or where this process may run,
// others may share these processors, and nothing is bound; nor where another process's workers are, for two that are
// bound to one processor leave another without work (kernels compile in workers: two programs beside each other took
// 1.5 times as long). Only the main thread sets a variable: others may be reading theirs, and a program that has begun
// with threads of its own asks for its first device there or sets POCL_AFFINITY itself.
void bind_pocl_workers() {
  for (const char* name : {"POCL_AFFINITY", "POCL_MAX_PTHREAD_COUNT", "POCL_CPU_MAX_CU_COUNT"}) {
    if (os::variable(name)) return;
  }
  if (!os::may_use_all_processors() || !os::is_main_thread()) return;
  if (os::hold_on_machine("heddle: workers keep to processors")) os::set_variable("POCL_AFFINITY", "1");
}

Loaded load() {
  bind_pocl_workers();
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
