#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <system_error>

#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/process.h"

namespace heddle::os {
namespace {

[[noreturn]] void fail(int code, const char* doing) { throw std::system_error(code, std::generic_category(), doing); }

// Closes at the end of its life; -1 is none.
struct End {
  int number = -1;
  End() = default;
  End(const End&) = delete;
  End& operator=(const End&) = delete;
  ~End() { close(); }
  void close() {
    if (number >= 0) ::close(number);
    number = -1;
  }
};

// Not the numbers of standard streams, where this process has none: the child gets those.
void make_pipe(End& read, End& write) {
  std::array<int, 2> made{};
  if (::pipe2(made.data(), O_CLOEXEC) != 0) fail(errno, "pipe");
  read.number = ::fcntl(made[0], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  write.number = ::fcntl(made[1], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  const int code = errno;
  ::close(made[0]);
  ::close(made[1]);
  if (read.number < 0 || write.number < 0) fail(code, "pipe");
}

// Lives as long as posix_spawn() needs it.
struct Spawn {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  Spawn() {
    if (::posix_spawn_file_actions_init(&actions) != 0 || ::posix_spawnattr_init(&attributes) != 0)
      fail(ENOMEM, "spawn");
  }
  ~Spawn() {
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  Spawn(const Spawn&) = delete;
  Spawn& operator=(const Spawn&) = delete;

  // `mine` gets this process's end of a pipe, `theirs` the child's, which lives until it was started.
  void give(int number, ChildStream stream, End& mine, End& theirs) {
    switch (stream) {
      case ChildStream::null:
        ::posix_spawn_file_actions_addopen(&actions, number, "/dev/null", number == 0 ? O_RDONLY : O_WRONLY, 0);
        break;
      case ChildStream::full:
        ::posix_spawn_file_actions_addopen(&actions, number, "/dev/full", O_WRONLY, 0);
        break;
      case ChildStream::closed:
        closed_[number] = true;
        break;
      case ChildStream::output:
        ::posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, number);
        break;
      case ChildStream::pipe:
      case ChildStream::broken:
        make_pipe(number == 0 ? theirs : mine, number == 0 ? mine : theirs);
        if (stream == ChildStream::broken) mine.close();
        ::posix_spawn_file_actions_adddup2(&actions, theirs.number, number);
        break;
      case ChildStream::same:
        break;
    }
  }
  // After all others: a closed number would be taken by the next file that is opened.
  void close_closed() {
    for (int number = 0; number < 3; ++number) {
      if (closed_[number]) ::posix_spawn_file_actions_addclose(&actions, number);
    }
  }
  void set_group(bool own) {
    sigset_t none;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setpgroup(&attributes, 0);
    ::posix_spawnattr_setflags(&attributes,
                               static_cast<short>(POSIX_SPAWN_SETSIGMASK | (own ? POSIX_SPAWN_SETPGROUP : 0)));
  }

 private:
  bool closed_[3] = {};
};

std::vector<std::string> environment(const std::vector<std::pair<std::string, std::string>>& added) {
  std::vector<std::string> all = variables();
  std::erase_if(all, [&](const std::string& entry) {
    return std::any_of(added.begin(), added.end(), [&](const auto& one) { return entry.starts_with(one.first + "="); });
  });
  for (const auto& [name, value] : added) all.push_back(name + "=" + value);
  return all;
}

void limit_time(pid_t pid, double seconds) {
  const auto whole = static_cast<rlim_t>(std::ceil(seconds));
  const rlimit limit{whole, whole};
  ::prlimit(pid, RLIMIT_CPU, &limit, nullptr);
}

std::vector<char*> pointers(const std::vector<std::string>& words) {
  std::vector<char*> all;
  for (const std::string& word : words) all.push_back(const_cast<char*>(word.c_str()));
  all.push_back(nullptr);
  return all;
}

// Appends what is there to read; closes the end of a stream that has ended.
void drain(End& end, std::string& text) {
  std::array<char, 4096> chunk;
  const ssize_t got = ::read(end.number, chunk.data(), chunk.size());
  if (got > 0) text.append(chunk.data(), static_cast<size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR)) end.close();
}

}  // namespace

std::string ChildEnd::str() const {
  return signal != 0 ? fmt::format("signal {}", signal) : fmt::format("exit code {}", exit_code);
}

std::string ChildEnd::signal_name() const {
  if (signal == 0) return {};
  const char* const name = ::sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

// One that has ended and that nobody waits for still has its number.
bool is_running(int process) {
  if (::kill(process, 0) != 0 && errno != EPERM) return false;
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name = text.rfind(") ");  // it may have any letters
  return name == std::string::npos || text.compare(name + 2, 1, "Z") != 0;
}

struct ChildProcess::State {
  pid_t pid = -1;  // -1: it has been waited for
  bool own_group = true;
  End input, output, error;
  ChildEnd end;
};

ChildProcess::ChildProcess(const std::string& program, const std::vector<std::string>& words,
                           const ChildOptions& options)
    : state_(std::make_unique<State>()) {
  Spawn spawn;
  std::array<End, 3> theirs;
  spawn.give(STDIN_FILENO, options.input, state_->input, theirs[0]);
  spawn.give(STDOUT_FILENO, options.output, state_->output, theirs[1]);
  spawn.give(STDERR_FILENO, options.error, state_->error, theirs[2]);
  spawn.close_closed();
  if (!options.folder.empty()) ::posix_spawn_file_actions_addchdir_np(&spawn.actions, options.folder.c_str());
  spawn.set_group(options.own_group);
  state_->own_group = options.own_group;
  const std::vector<std::string> all = environment(options.variables);
  const int code = ::posix_spawn(&state_->pid, program.c_str(), &spawn.actions, &spawn.attributes,
                                 pointers(words).data(), pointers(all).data());
  if (code != 0) {
    state_->pid = -1;
    fail(code, program.c_str());
  }
  if (options.cpu_seconds > 0) limit_time(state_->pid, options.cpu_seconds);
}

ChildProcess::~ChildProcess() {
  if (!running()) return;
  kill();
  wait();
}

bool ChildProcess::write(const std::string& text) {
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(state_->input.number, text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    sent += static_cast<size_t>(n);
  }
  return true;
}

bool ChildProcess::read(std::string& output, std::string* error, double seconds) {
  std::string dropped;
  std::array<pollfd, 2> waits = {{{state_->output.number, POLLIN, 0}, {state_->error.number, POLLIN, 0}}};
  if (waits[0].fd < 0 && waits[1].fd < 0) return false;
  ::poll(waits.data(), waits.size(), static_cast<int>(std::ceil(std::clamp(seconds, 0.0, 3600.0) * 1000)));
  if (waits[0].fd >= 0 && waits[0].revents != 0) drain(state_->output, output);
  if (waits[1].fd >= 0 && waits[1].revents != 0) drain(state_->error, error != nullptr ? *error : dropped);
  return state_->output.number >= 0 || state_->error.number >= 0;
}

void ChildProcess::send_signal(int number) {
  if (running()) ::kill(state_->pid, number);
}

void ChildProcess::kill() {
  if (!running()) return;
  if (state_->own_group) ::kill(-state_->pid, SIGKILL);
  ::kill(state_->pid, SIGKILL);
}

const ChildEnd& ChildProcess::wait() {
  if (!running()) return state_->end;
  int status = 0;
  pid_t reaped = 0;
  do reaped = ::waitpid(state_->pid, &status, 0);
  while (reaped < 0 && errno == EINTR);
  const bool known = reaped == state_->pid;
  state_->pid = -1;
  if (known && WIFEXITED(status)) state_->end.exit_code = WEXITSTATUS(status);
  if (known && WIFSIGNALED(status)) state_->end.signal = WTERMSIG(status);
  return state_->end;
}

bool ChildProcess::running() const { return state_->pid > 0; }

}  // namespace heddle::os
