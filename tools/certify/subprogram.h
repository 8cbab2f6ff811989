// Other programs: run in a child with a time limit, their output taken.
//
// Errors: DeviceError where one cannot be started. Thread safety: none.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace heddle::tools::certify {

struct Finished {
  int exit_code = 0;   // 128 + the signal; 124, or 137: ran past the limit
  std::string output;  // standard output and standard error
};
// In that folder, with these variables set beside the process's own. It may compute for so many seconds, and take ten
// times as long on a busy machine.
Finished run_program(const std::vector<std::string>& words, const std::string& folder,
                     const std::vector<std::pair<std::string, std::string>>& variables = {}, double seconds = 120);

// A folder of temporary files, removed with its object.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }
  void clear() const;

 private:
  std::string path_;
};

}  // namespace heddle::tools::certify
