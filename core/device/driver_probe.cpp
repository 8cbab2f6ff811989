#include "heddle/core/device/driver_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <system_error>
#include <vector>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/system/files.h"
#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"

namespace heddle {
namespace {

constexpr std::string_view alive = "heddle-probe: alive";

double limit_seconds() {
  const char* asked = std::getenv("HEDDLE_PROBE_SECONDS");
  return asked ? parse_number<double>(asked).value_or(60) : 60;
}

// Beside the library, or, of a static one, beside the folder of the program; empty where there is none.
std::string probe_program() {
  std::error_code code;
  const fs::path folder =
      fs::canonical(os::file_of_code(reinterpret_cast<const void*>(&driver_fault)), code).parent_path();
  for (const fs::path& path : {folder / "heddle/heddle-probe", folder.parent_path() / "lib/heddle/heddle-probe"}) {
    const std::string file = path.string() + os::program_suffix;
    if (os::is_executable(file)) return file;
  }
  return {};
}

// ---- what an answer depends on ----

std::string stamp(const std::string& path) { return fmt::format("{} {}\n", path, os::stamp_of(path)); }

// The files of a folder and, in each, the lines or words that name another file.
std::string stamps_of_folder(const fs::path& folder) {
  std::error_code ignored;
  std::string text = folder.string() + "\n";
  for (const std::string& name : names_in(folder.string(), ignored)) {
    const std::string file = (folder / name).string();
    text += stamp(file);
    std::string content;
    if (!read_contents(file, content)) continue;
    std::replace(content.begin(), content.end(), '"', '\n');
    size_t from = 0;
    for (size_t end = content.find('\n'); end != std::string::npos; from = end + 1, end = content.find('\n', from)) {
      if (content[from] == '/') text += stamp(content.substr(from, end - from));
    }
  }
  return text;
}

std::string identity(const std::string& kind, const std::string& program) {
  std::string text = kind + "\n" + stamp(program);
  const os::Vendor vendor = kind == "opencl" ? os::Vendor::opencl : os::Vendor::vulkan;
  for (const std::string& folder : os::driver_folders(vendor)) text += stamps_of_folder(folder);
  if (kind == "vulkan") {
    for (const char* variable : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
      if (const char* file = std::getenv(variable)) text += stamp(file);
    }
  }
  std::vector<std::string> variables;
  for (const std::string& variable : os::variables()) {
    for (const char* prefix :
         {"OCL_", "OPENCL_", "POCL_", "RUSTICL_", "VK_", "CUDA_VISIBLE", "NVIDIA_", "LD_LIBRARY_PATH", "LD_PRELOAD"}) {
      if (variable.starts_with(prefix) && !variable.starts_with("POCL_CACHE_DIR") &&
          !variable.starts_with("POCL_AFFINITY"))
        variables.push_back(variable);
    }
  }
  std::sort(variables.begin(), variables.end());
  for (const std::string& variable : variables) text += variable + "\n";
  return text + os::system_stamp();
}

// ---- the child ----

// What it printed until it ended; false when it had not after the time.
bool read_output(os::ChildProcess& child, double seconds, std::string& text) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    if (!child.read(text, nullptr, std::min(left, 1.0)) || text.find(alive) != std::string::npos) return true;
  }
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  const size_t end = text.rfind('\n');
  return text.substr(end == std::string::npos ? 0 : end + 1, 300);
}

std::string how_it_ended(const os::ChildEnd& end) {
  if (end.signal != 0) return fmt::format("died with {}", end.signal_name());
  return end.exit_code >= 0 ? fmt::format("ended with exit code {}", end.exit_code) : "died";
}

std::unique_ptr<os::ChildProcess> start(const std::string& program, const std::string& kind) try {
  os::ChildOptions options;
  options.error = os::ChildStream::output;
  return std::make_unique<os::ChildProcess>(program, std::vector<std::string>{"heddle-probe", kind}, options);
} catch (const std::system_error&) {
  return nullptr;
}

std::string ask(const std::string& kind) {
  const double seconds = limit_seconds();
  const std::string program = probe_program();
  if (seconds <= 0 || program.empty()) return {};
  const DiskCache cache("drivers", 0);
  const std::string key = identity(kind, program);
  if (cache.load(key)) return {};
  const std::unique_ptr<os::ChildProcess> child = start(program, kind);
  if (!child) return {};
  std::string text;
  const bool ended = read_output(*child, seconds, text);
  const bool lives = text.find(alive) != std::string::npos;
  if (!ended || lives) child->kill();  // alive: what a driver does while its process ends is of no interest here
  const os::ChildEnd end = child->wait();
  if (lives) {
    cache.store(key, alive.data(), alive.size(), kind + " drivers live");
    return {};
  }
  const std::string said = last_line(text);
  const std::string quoted = said.empty() ? "" : fmt::format(": \"{}\"", said);
  if (!ended)
    return fmt::format("the driver did not answer within {:g} s{} (HEDDLE_PROBE_SECONDS sets the limit)", seconds,
                       quoted);
  return fmt::format("the driver {}{}", how_it_ended(end), quoted);
}

}  // namespace

const std::string& driver_fault(const std::string& kind) {
  static std::mutex& mutex = *new std::mutex;
  static auto& answers = *new std::map<std::string, std::string>;
  const std::lock_guard lock(mutex);
  const auto found = answers.find(kind);
  return found != answers.end() ? found->second : answers.emplace(kind, ask(kind)).first->second;
}

}  // namespace heddle
