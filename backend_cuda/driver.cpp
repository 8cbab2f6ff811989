#include "heddle/backend_cuda/driver.h"

#include <fmt/format.h>

#include <type_traits>

#include "heddle/core/base/error.h"
#include "heddle/core/base/system/library.h"

namespace heddle::cuda {

// The table's signatures are the header's (older headers declare cuGraphInstantiate with other parameters).
#if CUDA_VERSION >= 12000
#define HEDDLE_CU_SAME(member, symbol, ...) \
  static_assert(std::is_same_v<decltype(&::cu##member), decltype(DriverApi::member)>, symbol);
HEDDLE_CU_FUNCTIONS(HEDDLE_CU_SAME)
#undef HEDDLE_CU_SAME
#endif

namespace {

struct Loaded {
  DriverApi api;
  std::string absent;
};

std::string text_of(const DriverApi& api, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (api.GetErrorName(result, &name) != CUDA_SUCCESS || !name) name = "unknown code";
  if (api.GetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "no description";
  return fmt::format("{} ({}): {}", name, static_cast<int>(result), text);
}

Loaded load() {
  Loaded loaded;
  DriverApi& api = loaded.api;
  const std::string name = os::names_of(os::Vendor::cuda).front().name;
  void* library = os::open_library(os::Vendor::cuda);
  if (!library) {
    loaded.absent = name + " not found";
    return loaded;
  }
#define HEDDLE_CU_LOAD(member, symbol, ...)                                              \
  api.member = reinterpret_cast<decltype(api.member)>(os::find_symbol(library, symbol)); \
  if (!api.member && loaded.absent.empty())                                              \
    loaded.absent = name + " lacks " symbol                                              \
                           " (the driver is older than "                                 \
                           "11.4)";
  HEDDLE_CU_FUNCTIONS(HEDDLE_CU_LOAD)
#undef HEDDLE_CU_LOAD
  if (!loaded.absent.empty()) return loaded;
  CUresult result = api.Init(0);
  if (result == CUDA_SUCCESS) result = api.DriverGetVersion(&api.version);
  if (result != CUDA_SUCCESS) loaded.absent = name + " found, but cuInit: " + text_of(api, result);
  return loaded;
}

const Loaded& loaded() {
  static const Loaded* const result = new Loaded(load());  // leaked: used until the process is gone
  return *result;
}

}  // namespace

const DriverApi* try_cu(std::string* absent) {
  const Loaded& l = loaded();
  if (l.absent.empty()) return &l.api;
  if (absent) *absent = l.absent;
  return nullptr;
}

const DriverApi& cu() { return loaded().api; }

std::string result_text(CUresult result) { return text_of(cu(), result); }

void check(CUresult result, const char* call) {
  if (result != CUDA_SUCCESS) throw DeviceError(fmt::format("[cuda] {}: {}", call, result_text(result)));
}

bool means_lost(CUresult result) {
  switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_SYSTEM_NOT_READY:
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_UNKNOWN:
      return true;
    default:
      return false;
  }
}

}  // namespace heddle::cuda
