#include "tools/certify/subprogram.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "heddle/core/base/error.h"

namespace heddle::tools::certify {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void become(std::vector<char*> words, const std::string& folder,
                         const std::vector<std::pair<std::string, std::string>>& variables, int output) {
  ::setpgid(0, 0);
  const int null = ::open("/dev/null", O_RDONLY);
  if (null >= 0) ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
  if (::chdir(folder.c_str()) == 0) ::execv(words[0], words.data());
  ::_exit(127);
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

std::string find_program(const std::string& name, const std::vector<std::string>& folders) {
  const char* path = std::getenv("PATH");
  std::string all = path != nullptr ? path : "/usr/bin:/bin";
  for (const std::string& folder : folders) all += ":" + folder;
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find(':', at), all.size());
    const std::string file = all.substr(at, end - at) + "/" + name;
    if (end > at && ::access(file.c_str(), X_OK) == 0) return file;
    at = end + 1;
  }
  return {};
}

Finished run_program(const std::vector<std::string>& words, const std::string& folder,
                     const std::vector<std::pair<std::string, std::string>>& variables, double seconds) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw DeviceError(fmt::format("[certify] pipe: {}", std::strerror(errno)));
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int pid = ::fork();
  if (pid == 0) become(std::move(arguments), folder, variables, ends[1]);
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    throw DeviceError(fmt::format("[certify] cannot start {}: {}", words.at(0), std::strerror(errno)));
  }
  Finished finished;
  bool late = false;
  for (char chunk[4096];;) {
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    pollfd waiting{ends[0], POLLIN, 0};
    if (left <= 0) {
      ::kill(-pid, SIGKILL);
      late = true;
      break;
    }
    if (::poll(&waiting, 1, static_cast<int>(left * 1000) + 1) <= 0) continue;
    const ssize_t n = ::read(ends[0], chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    finished.output.append(chunk, static_cast<size_t>(n));
  }
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  finished.exit_code = late ? 124 : exit_code_of(status);
  return finished;
}

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "heddle-certify-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw IoError(fmt::format("[certify] cannot make a folder in {}: {}", fs::temp_directory_path().string(),
                              std::strerror(errno)));
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void ScratchFolder::clear() const {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, ignored)) fs::remove_all(entry.path(), ignored);
}

}  // namespace heddle::tools::certify
