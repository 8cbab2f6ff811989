#include "heddle/core/base/folders.h"

#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string_view>

#include "heddle/core/base/files.h"

namespace heddle {
namespace {

struct Close {
  void operator()(DIR* folder) const { ::closedir(folder); }
};

std::error_code reason() { return {errno, std::generic_category()}; }

std::unique_ptr<DIR, Close> open_folder(const std::string& path) {
  const int descriptor = open_file(path, O_RDONLY | O_DIRECTORY);
  DIR* folder = descriptor < 0 ? nullptr : ::fdopendir(descriptor);
  if (!folder && descriptor >= 0) const Descriptor closed(descriptor);
  return std::unique_ptr<DIR, Close>(folder);
}

}  // namespace

std::vector<std::string> names_in(const std::string& folder, std::error_code& error) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, Close> listing = open_folder(folder);
  error = listing ? std::error_code() : reason();
  while (listing) {
    errno = 0;
    const dirent* entry = ::readdir(listing.get());
    if (!entry && errno != 0) error = reason();
    if (!entry) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::vector<std::string> files_below(const std::string& folder, std::error_code& error) {
  std::vector<std::string> files, open = {folder};
  error.clear();
  while (!open.empty() && !error) {
    const std::string at = std::move(open.back());
    open.pop_back();
    for (const std::string& name : names_in(at, error)) {
      const std::string path = at.ends_with('/') ? at + name : at + '/' + name;
      struct stat own {
      }, target{};
      if (::lstat(path.c_str(), &own) != 0) continue;  // gone meanwhile
      if (S_ISDIR(own.st_mode))
        open.push_back(path);
      else if (::stat(path.c_str(), &target) == 0 && S_ISREG(target.st_mode))
        files.push_back(path);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace heddle
