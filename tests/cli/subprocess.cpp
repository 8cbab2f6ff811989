#include "tests/cli/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <sstream>
#include <stdexcept>

namespace heddle::test {
namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read = ends[0];
    write = ends[1];
  }
};

[[noreturn]] void become(const std::vector<std::string>& command, const RunOptions& options, int out, int err) {
  ::dup2(::open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  if (options.output == Output::full_disk) ::dup2(::open("/dev/full", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
  if (options.output == Output::closed) {
    for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::close(number);
  }
  ::setenv("HEDDLE_SELF_TEST", "0", 1);  // each test has a cache folder of its own: every training would do it
  for (const auto& [name, value] : options.environment) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> arguments;
  for (const std::string& argument : command) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

// Appends what is there to read; false at the end of the stream.
bool drain(int descriptor, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t got = ::read(descriptor, buffer.data(), buffer.size());
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  text.append(buffer.data(), static_cast<size_t>(got));
  return true;
}

}  // namespace

std::vector<std::string> Finished::out_lines() const {
  std::vector<std::string> lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Finished run_program(const std::vector<std::string>& command, const RunOptions& options) {
  Pipe out;
  const Pipe err;
  if (options.output == Output::broken_pipe) {
    ::close(out.read);
    out.read = -1;
  }
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("cannot fork");
  if (child == 0) become(command, options, out.write, err.write);
  ::close(out.write);
  ::close(err.write);

  Finished result;
  const auto deadline = Clock::now() + options.limit;
  bool out_open = out.read >= 0, err_open = true, interrupted = options.interrupt_after.empty(), killed = false;
  while (out_open || err_open) {
    std::array<pollfd, 2> waits = {{{out_open ? out.read : -1, POLLIN, 0}, {err_open ? err.read : -1, POLLIN, 0}}};
    ::poll(waits.data(), waits.size(), 5);
    if (waits[0].revents != 0) out_open = drain(out.read, result.out);
    if (waits[1].revents != 0) err_open = drain(err.read, result.err);
    if (!interrupted && result.out.find(options.interrupt_after) != std::string::npos) {
      ::kill(child, options.signal);
      interrupted = true;
    }
    if (!killed && Clock::now() > deadline) {
      ::kill(child, SIGKILL);
      killed = true;
    }
  }
  if (out.read >= 0) ::close(out.read);
  ::close(err.read);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

Finished run_heddle(std::vector<std::string> arguments, const RunOptions& options) {
  arguments.insert(arguments.begin(), std::string(HEDDLE_BINARY_DIR) + "/bin/heddle");
  return run_program(arguments, options);
}

}  // namespace heddle::test
