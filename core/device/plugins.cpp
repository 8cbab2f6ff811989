#include "heddle/core/device/plugins.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "heddle/core/base/folders.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/device/backend.h"

namespace heddle {
namespace {

constexpr std::string_view prefix = "heddle_backend_";

bool is_plugin_name(const std::string& name) {
  const std::string_view suffix = os::library_suffix;
  return name.starts_with(prefix) && name.ends_with(suffix) && name.size() > prefix.size() + suffix.size();
}

// Why the library at `path` was not taken; empty when it was.
std::string load_one(Registry& registry, const std::string& path) {
  std::string reason;
  void* library = os::open_library(path, &reason);
  if (!library) return fmt::format("cannot be loaded: {}", reason);
  auto abi = reinterpret_cast<int (*)()>(os::find_symbol(library, "heddle_backend_abi"));
  auto enter = reinterpret_cast<void (*)(Registry&)>(os::find_symbol(library, "heddle_register_backend"));
  if (!abi || !enter) {
    os::close_library(library);
    return fmt::format("{} does not export {}", path, abi ? "heddle_register_backend" : "heddle_backend_abi");
  }
  if (int version = abi(); version != backend_abi_version) {
    os::close_library(library);
    return fmt::format("{} was built for backend ABI {}, this library has {}", path, version, backend_abi_version);
  }
  try {
    enter(registry);
  } catch (const std::exception& error) {
    return fmt::format("{} failed to register: {}", path,
                       error.what());  // stays loaded: it may have left objects behind
  }
  return {};
}

DeviceInfo failure(std::string id, std::string name, std::string reason) {
  DeviceInfo info;
  info.id = std::move(id);
  info.backend = info.id;
  info.name = std::move(name);
  info.reason = std::move(reason);
  return info;
}

std::vector<fs::path> candidates(const std::string& folder, std::string& reason) {
  std::vector<fs::path> found;
  std::error_code error;
  for (const std::string& name : names_in(folder, error)) {
    if (is_plugin_name(name)) found.push_back(fs::path(folder) / name);
  }
  if (error) reason = fmt::format("the folder of HEDDLE_BACKEND_PATH cannot be read: {}", error.message());
  return found;
}

}  // namespace

std::vector<DeviceInfo> load_plugins(Registry& registry, const std::string& folders) {
  std::vector<DeviceInfo> failures;
  for (size_t at = 0; at <= folders.size();) {
    size_t end = std::min(folders.find(os::list_separator, at), folders.size());
    std::string folder = folders.substr(at, end - at);
    at = end + 1;
    if (folder.empty()) continue;
    std::string reason;
    std::vector<fs::path> files = candidates(folder, reason);
    if (!reason.empty()) failures.push_back(failure("plugin", folder, reason));
    for (const fs::path& file : files) {
      std::string name = file.filename().string();
      std::string id =
          name.substr(prefix.size(), name.size() - prefix.size() - std::string_view(os::library_suffix).size());
      reason = load_one(registry, file.string());
      if (!reason.empty()) failures.push_back(failure(id, name, reason));
    }
  }
  return failures;
}

}  // namespace heddle
