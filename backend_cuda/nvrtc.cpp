#include "heddle/backend_cuda/nvrtc.h"

#include <fmt/format.h>
#include <nvrtc.h>

#include <algorithm>
#include <vector>

#include "heddle/backend_cuda/driver.h"
#include "heddle/core/base/ascii.h"
#include "heddle/core/base/debug_switch.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/system/library.h"

namespace heddle::cuda {
namespace {

// clang-format off
#define HEDDLE_NVRTC_FUNCTIONS(F) \
  F(GetErrorString) F(Version) F(GetNumSupportedArchs) F(GetSupportedArchs) F(CreateProgram) F(DestroyProgram) \
  F(CompileProgram) F(GetPTXSize) F(GetPTX) F(GetCUBINSize) F(GetCUBIN) F(GetProgramLogSize) F(GetProgramLog)
// clang-format on

struct Lines {
  static constexpr const char* variable = "HEDDLE_CUDA_LINES";
};

struct NvrtcApi {
#define HEDDLE_NVRTC_POINTER(name) decltype(&::nvrtc##name) name = nullptr;
  HEDDLE_NVRTC_FUNCTIONS(HEDDLE_NVRTC_POINTER)
#undef HEDDLE_NVRTC_POINTER
  std::vector<int> archs;  // supported capabilities, ascending
  std::string version;
};

struct LoadedNvrtc {
  NvrtcApi api;
  std::string absent;
};

// Names to try, best first. A driver loads machine code of its own major version and older ones.
std::vector<std::string> candidates() {
  const std::span<const os::LibraryName> all = os::names_of(os::Vendor::nvrtc);
  std::vector<os::LibraryName> known(all.begin(), all.end());
  const int driver = try_cu() ? cu().version / 1000 : 1000;
  // Newer than the driver comes after the others, a name without a version last.
  const auto rank = [&](const os::LibraryName& name) { return name.version == 0 ? 2 : name.version > driver ? 1 : 0; };
  std::stable_sort(known.begin(), known.end(), [&](const auto& a, const auto& b) { return rank(a) < rank(b); });
  std::vector<std::string> folders = {""}, names;
  for (std::string& folder : os::toolkit_folders()) folders.push_back(std::move(folder));
  for (const os::LibraryName& name : known) {
    for (const std::string& folder : folders) names.push_back(folder + name.name);
  }
  return names;
}

void read_facts(LoadedNvrtc& loaded) {
  NvrtcApi& api = loaded.api;
  int major = 0, minor = 0, count = 0;
  nvrtcResult result = api.Version(&major, &minor);
  if (result == NVRTC_SUCCESS) result = api.GetNumSupportedArchs(&count);
  if (result == NVRTC_SUCCESS && count > 0) {
    api.archs.resize(static_cast<size_t>(count));
    result = api.GetSupportedArchs(api.archs.data());
  }
  if (result != NVRTC_SUCCESS || api.archs.empty()) {
    loaded.absent = fmt::format("NVRTC does not say what it supports: {}", api.GetErrorString(result));
    return;
  }
  std::sort(api.archs.begin(), api.archs.end());
  api.version = fmt::format("{}.{}", major, minor);
}

LoadedNvrtc load_nvrtc() {
  LoadedNvrtc loaded;
  void* library = nullptr;
  for (const std::string& name : candidates()) {
    library = os::open_library(name);
    if (library) break;
  }
  if (!library) {
    loaded.absent = "libnvrtc.so not found (version 13, 12 or 11.2; part of the CUDA toolkit)";
    return loaded;
  }
#define HEDDLE_NVRTC_LOAD(name)                                                                           \
  loaded.api.name = reinterpret_cast<decltype(loaded.api.name)>(os::find_symbol(library, "nvrtc" #name)); \
  if (!loaded.api.name && loaded.absent.empty()) loaded.absent = "libnvrtc.so lacks nvrtc" #name;
  HEDDLE_NVRTC_FUNCTIONS(HEDDLE_NVRTC_LOAD)
#undef HEDDLE_NVRTC_LOAD
  if (loaded.absent.empty()) read_facts(loaded);
  return loaded;
}

const LoadedNvrtc& loaded_nvrtc() {
  static const LoadedNvrtc* const result = new LoadedNvrtc(load_nvrtc());  // leaked: used until the process is gone
  return *result;
}

const NvrtcApi& nvrtc() {
  const LoadedNvrtc& l = loaded_nvrtc();
  if (!l.absent.empty()) throw DeviceUnavailable("[cuda] " + l.absent);
  return l.api;
}

void check_nvrtc(nvrtcResult result, const char* call) {
  if (result != NVRTC_SUCCESS) throw DeviceError(fmt::format("[cuda] {}: {}", call, nvrtc().GetErrorString(result)));
}

// Places as the other drivers' compilers write them: "matmul.hk:41: error: ..." instead of "matmul.hk(41): error: ...".
std::string with_colons(const std::string& log) {
  std::string text;
  for (size_t from = 0; from < log.size();) {
    const size_t end = std::min(log.find('\n', from), log.size());
    const size_t close = log.find("): ", from);
    size_t open = close;
    while (close < end && open > from && is_ascii_digit(log[open - 1])) --open;
    if (close < end && open < close && open > from && log[open - 1] == '(') {
      text.append(log, from, open - 1 - from).append(":").append(log, open, close - open);
      from = close + 1;
    }
    text.append(log, from, end + 1 - from);
    from = end + 1;
  }
  return text;
}

// One program, destroyed with its scope.
class Program {
 public:
  Program(const std::string& text, const std::string& name) : name_(name) {
    check_nvrtc(nvrtc().CreateProgram(&program_, text.c_str(), (name + ".cu").c_str(), 0, nullptr, nullptr),
                "nvrtcCreateProgram");
  }
  ~Program() { nvrtc().DestroyProgram(&program_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // `arch` is "compute_80" (PTX) or "sm_80" (machine code). No --use_fast_math: NaN and infinity keep their meaning. A
  // sum takes in a product unrounded where the kernel says so (FMA) and nowhere else: a shard has the bits of the
  // whole.
  void compile(const std::string& arch, const std::vector<const char*>& more = {}) {
    std::string option = "--gpu-architecture=" + arch;
    std::vector<const char*> options = {option.c_str(), "--std=c++17", "--fmad=false"};
    options.insert(options.end(), more.begin(), more.end());
    if (with_lines()) options.push_back("--generate-line-info");
    nvrtcResult result = nvrtc().CompileProgram(program_, static_cast<int>(options.size()), options.data());
    if (result == NVRTC_SUCCESS) return;
    const std::string text = with_colons(log());
    throw CompileError(fmt::format("[compile] nvrtcCompileProgram of kernel {} for {}: {}: {}", name_, arch,
                                   nvrtc().GetErrorString(result), headline(text)),
                       text);
  }

  std::string log() {
    size_t bytes = 0;
    if (nvrtc().GetProgramLogSize(program_, &bytes) != NVRTC_SUCCESS || bytes == 0) return {};
    std::string text(bytes, '\0');
    if (nvrtc().GetProgramLog(program_, text.data()) != NVRTC_SUCCESS) return {};
    while (!text.empty() && (text.back() == '\0' || text.back() == '\n')) text.pop_back();
    return text;
  }

  std::string ptx() {
    size_t bytes = 0;
    check_nvrtc(nvrtc().GetPTXSize(program_, &bytes), "nvrtcGetPTXSize");
    std::string text(bytes, '\0');
    check_nvrtc(nvrtc().GetPTX(program_, text.data()), "nvrtcGetPTX");
    while (!text.empty() && text.back() == '\0') text.pop_back();
    return text;
  }

  std::string cubin() {
    size_t bytes = 0;
    check_nvrtc(nvrtc().GetCUBINSize(program_, &bytes), "nvrtcGetCUBINSize");
    std::string code(bytes, '\0');
    check_nvrtc(nvrtc().GetCUBIN(program_, code.data()), "nvrtcGetCUBIN");
    return code;
  }

 private:
  static std::string headline(const std::string& log) {
    size_t at = log.find("error");
    size_t from = at == std::string::npos ? 0 : log.rfind('\n', at) + 1;
    return log.substr(from, log.find('\n', from) - from);
  }

  nvrtcProgram program_ = nullptr;
  std::string name_;
};

}  // namespace

bool have_nvrtc(std::string* absent) {
  const LoadedNvrtc& l = loaded_nvrtc();
  if (absent && !l.absent.empty()) *absent = l.absent;
  return l.absent.empty();
}

bool with_lines() { return DebugSwitch<Lines>::on(); }

std::string nvrtc_version() { return loaded_nvrtc().api.version; }

std::vector<uint32_t> nvrtc_architectures() {
  return {loaded_nvrtc().api.archs.begin(), loaded_nvrtc().api.archs.end()};
}

std::string architecture_name(int sm) {
  return fmt::format("{}{}", sm, sm == 90 && !nvrtc_version().starts_with("11.") ? "a" : "");
}

std::string compile_ptx(const std::string& text, const std::string& name, int sm) {
  Program program(text, name);
  program.compile("compute_" + architecture_name(sm));
  return program.ptx();
}

namespace {

// The number in front of `unit` in the assembler's report: "Used 40 registers" -> 40; `absent` when the report lacks
// it.
int reported(const std::string& log, std::string_view unit, int absent) {
  const size_t at = log.find(unit);
  if (at == std::string::npos) return absent;
  size_t first = at;
  while (first > 0 && is_ascii_digit(log[first - 1])) --first;
  return first == at ? absent : std::stoi(log.substr(first, at - first));
}

KernelResources assemble(const std::string& text, const std::string& name, int sm, const std::vector<const char*>& more,
                         std::string& log) {
  Program program(text, name);
  std::vector<const char*> options = {"--ptxas-options=-v"};
  options.insert(options.end(), more.begin(), more.end());
  program.compile("sm_" + architecture_name(sm), options);
  log = program.log();
  KernelResources r;
  r.registers = reported(log, " registers", -1);
  r.shared_bytes = reported(log, " bytes smem", 0);
  r.stack_bytes = reported(log, " bytes stack frame", -1);
  r.spill_stores = reported(log, " bytes spill stores", -1);
  r.spill_loads = reported(log, " bytes spill loads", -1);
  r.code = program.cubin();
  return r;
}

// Numbers are -1 that `log`, the assembler's report, lacks. The assembler spills a few registers where that
// lets more groups stay on a compute unit; such a kernel gets the registers that it needs, for one group at least.
KernelResources machine_code(const std::string& text, const std::string& name, int sm, std::string& log) {
  KernelResources r = assemble(text, name, sm, {}, log);
  const bool by_choice = text.find(" HK_RESIDENT)") != std::string::npos;
  if (!by_choice || r.spill_stores + r.spill_loads <= 0) return r;
  std::string roomy_log;
  KernelResources roomy = assemble(text, name, sm, {"--define-macro=HK_RESIDENT=,1"}, roomy_log);
  if (roomy.spill_stores + roomy.spill_loads >= r.spill_stores + r.spill_loads) return r;
  log = std::move(roomy_log);
  return roomy;
}

}  // namespace

KernelResources kernel_resources(const std::string& text, const std::string& name, int sm) {
  std::string log;
  const KernelResources r = machine_code(text, name, sm, log);
  if (r.registers < 0 || r.stack_bytes < 0 || r.spill_stores < 0 || r.spill_loads < 0) {
    throw DeviceError(
        fmt::format("[cuda] NVRTC {} reports no registers and spills of kernel {}: '{}'", nvrtc_version(), name, log));
  }
  return r;
}

std::string compile_module(const std::string& text, const std::string& name, int sm) {
  const std::vector<int>& archs = nvrtc().archs;
  auto above = std::upper_bound(archs.begin(), archs.end(), sm);
  if (above == archs.begin()) {
    throw CompileError(fmt::format("[compile] kernel {}: NVRTC {} supports sm_{} and newer, the device is sm_{}", name,
                                   nvrtc_version(), archs.front(), sm),
                       "");
  }
  int arch = *std::prev(above);
  if (arch != sm) return compile_ptx(text, name, arch);
  std::string log;
  return machine_code(text, name, sm, log).code;
}

}  // namespace heddle::cuda
