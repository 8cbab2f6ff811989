#include "heddle/core/base/folders.h"

#include <algorithm>
#include <optional>

#include "heddle/core/base/system/files.h"

namespace heddle {

std::vector<std::string> names_in(const std::string& folder, std::error_code& error) {
  std::vector<std::string> names = os::list_folder(folder, error);
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
      const std::optional<os::FileFacts> own = os::facts_of(path, false);
      if (!own) continue;  // gone meanwhile
      if (own->folder) {
        open.push_back(path);
      } else if (const std::optional<os::FileFacts> target = os::facts_of(path); target && target->regular) {
        files.push_back(path);
      }
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace heddle
