#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "heddle/core/base/files.h"
#include "heddle/core/base/system/files.h"
#include "heddle/core/base/system/machine.h"

extern char** environ;

namespace heddle::os {

const char list_separator = ':';
const char* const program_suffix = "";

uint64_t memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(bytes) : 0;
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::string system_name() {
  utsname names{};
  ::uname(&names);
  return fmt::format("{} {} {}", names.sysname, names.release, names.machine);
}

// What stands behind "model name" in Linux's list of processors.
std::string processor_name() {
  std::string text;
  read_contents("/proc/cpuinfo", text);
  constexpr std::string_view field = "\nmodel name";
  const size_t line = text.find(field), colon = line == std::string::npos ? line : text.find(": ", line);
  return colon == std::string::npos ? "" : text.substr(colon + 2, text.find('\n', colon) - colon - 2);
}

std::string system_stamp() {
  utsname system{};
  ::uname(&system);
  return fmt::format("{} {}\n/ {}\n{}", system.release, ::getuid(), stamp_of("/"),
                     ::access("/sys/devices/system/cpu", F_OK) == 0 ? "/sys" : "no /sys");
}

bool hold_on_machine(const char* name) {
#ifdef __linux__
  // unix(7): a socket in the abstract namespace is there until nobody has it open, and no file is left behind.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t length = std::min(std::strlen(name), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name, length);
  const int held = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (held < 0) return true;
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  if (::bind(held, reinterpret_cast<const sockaddr*>(&address), bytes) == 0) return true;  // open until the end
  const bool taken = errno == EADDRINUSE;
  ::close(held);
  return !taken;
#else
  static_cast<void>(name);
  return true;
#endif
}

int process_id() { return ::getpid(); }

std::string program_file() { return "/proc/self/exe"; }

std::vector<std::string> arguments(int argc, char** argv) { return {argv, argv + argc}; }

std::vector<std::string> command_line() {
  std::string text;
  read_contents("/proc/self/cmdline", text);
  std::vector<std::string> words;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::vector<std::string> variables() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

std::optional<std::string> variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

void set_variable(const char* name, const std::optional<std::string>& value) {
  value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
}

std::string user_cache_folder() {
  const std::string xdg = variable("XDG_CACHE_HOME").value_or("");
  if (!xdg.empty()) return xdg;
  const std::string home = variable("HOME").value_or("");
  return home.empty() ? home : home + "/.cache";
}

void* allocate_aligned(size_t alignment, size_t bytes) {
  return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}
void free_aligned(void* memory) { std::free(memory); }

void prefer_large_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t unit = uintptr_t{2} << 20;  // x86-64's, and aarch64's with pages of 4 KiB
  const uintptr_t first = (reinterpret_cast<uintptr_t>(memory) + unit - 1) / unit * unit,
                  last = (reinterpret_cast<uintptr_t>(memory) + bytes) / unit * unit;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#endif
}

bool is_failed_mapping(const void* mapping) { return mapping == MAP_FAILED; }

}  // namespace heddle::os
