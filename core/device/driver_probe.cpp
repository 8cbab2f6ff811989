#include "heddle/core/device/driver_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <vector>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/parse_number.h"

extern char** environ;

namespace heddle {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view alive = "heddle-probe: alive";

double limit_seconds() {
  const char* asked = std::getenv("HEDDLE_PROBE_SECONDS");
  return asked ? parse_number<double>(asked).value_or(60) : 60;
}

// Beside the library, or, of a static one, beside the folder of the program; empty where there is none.
std::string probe_program() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<void*>(&driver_fault), &info) == 0 || !info.dli_fname) return {};
  std::error_code code;
  const fs::path folder = fs::canonical(info.dli_fname, code).parent_path();
  for (const fs::path& path : {folder / "heddle/heddle-probe", folder.parent_path() / "lib/heddle/heddle-probe"}) {
    if (::access(path.c_str(), X_OK) == 0) return path.string();
  }
  return {};
}

// ---- what an answer depends on ----

std::string stamp(const std::string& path) {
  struct stat file {};
  if (::stat(path.c_str(), &file) != 0) return path + " absent\n";
  return fmt::format("{} {} {} {} {}\n", path, file.st_dev, file.st_ino, file.st_size, file.st_mtime);
}

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
  const char* vendors = std::getenv("OCL_ICD_VENDORS");
  if (kind == "opencl") text += stamps_of_folder(vendors ? vendors : "/etc/OpenCL/vendors");
  if (kind == "vulkan") {
    for (const char* folder : {"/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/share/vulkan/implicit_layer.d"})
      text += stamps_of_folder(folder);
    for (const char* variable : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
      if (const char* file = std::getenv(variable)) text += stamp(file);
    }
  }
  std::vector<std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string_view variable = *entry;
    for (const char* prefix :
         {"OCL_", "OPENCL_", "POCL_", "RUSTICL_", "VK_", "CUDA_VISIBLE", "NVIDIA_", "LD_LIBRARY_PATH", "LD_PRELOAD"}) {
      if (variable.starts_with(prefix) && !variable.starts_with("POCL_CACHE_DIR")) variables.emplace_back(variable);
    }
  }
  std::sort(variables.begin(), variables.end());
  for (const std::string& variable : variables) text += variable + "\n";
  utsname system{};
  ::uname(&system);
  return text + fmt::format("{} {}\n", system.release, ::getuid()) + stamp("/") +
         (::access("/sys/devices/system/cpu", F_OK) == 0 ? "/sys" : "no /sys");
}

// ---- the child ----

struct Child {
  pid_t pid = -1;
  int output = -1;  // of its standard output and error
};

Child start(const std::string& program, const std::string& kind) {
  Child child;
  std::array<int, 2> made{}, ends{};
  if (::pipe2(made.data(), O_CLOEXEC) != 0) return child;
  for (size_t i = 0; i < 2;
       ++i) {  // not the numbers of standard streams, where this process has none: the child gets those
    ends[i] = ::fcntl(made[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    ::close(made[i]);
  }
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);  // Ctrl-C is this process's; a driver's helpers die with the probe
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  std::array<char*, 3> words = {const_cast<char*>("heddle-probe"), const_cast<char*>(kind.c_str()), nullptr};
  if (::posix_spawn(&child.pid, program.c_str(), &actions, &attributes, words.data(), environ) != 0) child.pid = -1;
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  if (child.pid > 0)
    child.output = ends[0];
  else
    ::close(ends[0]);
  return child;
}

// What it printed until it ended; false when it had not after the time.
bool read_output(const Child& child, double seconds, std::string& text) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd waiting{child.output, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min(left, 1.0) * 1000) + 1) <= 0) continue;
    std::array<char, 4096> chunk;
    const ssize_t n = ::read(child.output, chunk.data(), chunk.size());
    if (n > 0)
      text.append(chunk.data(), static_cast<size_t>(n));
    else if (n == 0 || errno != EINTR)
      return true;
    if (text.find(alive) != std::string::npos) return true;
  }
}

std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) text.pop_back();
  const size_t end = text.rfind('\n');
  return text.substr(end == std::string::npos ? 0 : end + 1, 300);
}

std::string how_it_ended(int status) {
  if (!WIFSIGNALED(status)) return fmt::format("ended with exit code {}", WEXITSTATUS(status));
  const char* name = ::sigabbrev_np(WTERMSIG(status));
  return name ? fmt::format("died with SIG{}", name) : fmt::format("died with signal {}", WTERMSIG(status));
}

std::string ask(const std::string& kind) {
  const double seconds = limit_seconds();
  const std::string program = probe_program();
  if (seconds <= 0 || program.empty()) return {};
  const DiskCache cache("drivers", 0);
  const std::string key = identity(kind, program);
  if (cache.load(key)) return {};
  const Child child = start(program, kind);
  if (child.pid < 0) return {};
  std::string text;
  const bool ended = read_output(child, seconds, text);
  const bool lives = text.find(alive) != std::string::npos;
  if (!ended || lives)
    ::kill(-child.pid, SIGKILL);  // alive: what a driver does while its process ends is of no interest here
  ::close(child.output);
  int status = 0;
  pid_t reaped = 0;
  do reaped = ::waitpid(child.pid, &status, 0);
  while (reaped < 0 && errno == EINTR);
  if (lives) {
    cache.store(key, alive.data(), alive.size(), kind + " drivers live");
    return {};
  }
  const std::string said = last_line(text);
  const std::string quoted = said.empty() ? "" : fmt::format(": \"{}\"", said);
  if (!ended)
    return fmt::format("the driver did not answer within {:g} s{} (HEDDLE_PROBE_SECONDS sets the limit)", seconds,
                       quoted);
  return fmt::format("the driver {}{}", reaped == child.pid ? how_it_ended(status) : "died", quoted);
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
