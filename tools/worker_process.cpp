#include "tools/worker_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <iostream>

#include "heddle/core/base/error.h"

namespace heddle::tools {

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments, bool keep_errors) {
  int to[2], from[2];
  if (::pipe2(to, O_CLOEXEC) != 0) throw DeviceError(fmt::format("[worker] pipe: {}", std::strerror(errno)));
  if (::pipe2(from, O_CLOEXEC) != 0) {
    ::close(to[0]);
    ::close(to[1]);
    throw DeviceError(fmt::format("[worker] pipe: {}", std::strerror(errno)));
  }
  std::vector<char*> words = {const_cast<char*>("heddle")};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::setpgid(0, 0);  // Ctrl-C is the parent's
    ::dup2(to[0], STDIN_FILENO);
    ::dup2(from[1], STDOUT_FILENO);
    if (!keep_errors) {
      const int null = ::open("/dev/null", O_WRONLY);
      if (null >= 0) ::dup2(null, STDERR_FILENO);
    }
    ::execv("/proc/self/exe", words.data());
    ::_exit(127);
  }
  const int error = errno;
  ::close(to[0]);
  ::close(from[1]);
  input_ = to[1];
  output_ = from[0];
  if (pid_ < 0) throw DeviceError(fmt::format("[worker] cannot start a worker process: {}", std::strerror(error)));
}

WorkerProcess::~WorkerProcess() {
  kill();
  ::close(input_);
  ::close(output_);
}

void WorkerProcess::reap() {
  int status = 0;
  if (pid_ > 0 && ::waitpid(pid_, &status, 0) == pid_) {
    end_ = WIFSIGNALED(status) ? fmt::format("signal {}", WTERMSIG(status))
                               : fmt::format("exit code {}", WEXITSTATUS(status));
  }
  pid_ = -1;
}

void WorkerProcess::kill() {
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);  // the group: a driver may have started helpers
  ::kill(pid_, SIGKILL);
  reap();
}

WorkerProcess::Answer WorkerProcess::ask(const std::string& line, double seconds, std::string& answer,
                                         bool (*interrupted)()) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::write(input_, text.data() + sent, text.size() - sent);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      kill();
      return Answer::ended;
    }
    sent += static_cast<size_t>(n);
  }
  for (;;) {
    if (const size_t end = buffer_.find('\n'); end != std::string::npos) {
      answer = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return Answer::line;
    }
    if (interrupted()) return Answer::interrupted;
    const double left = std::chrono::duration<double>(deadline - Clock::now()).count();
    if (left <= 0) {
      kill();
      return Answer::timeout;
    }
    pollfd waiting{output_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(std::min(left, 0.2) * 1000) + 1) <= 0) continue;
    char chunk[4096];
    const ssize_t n = ::read(output_, chunk, sizeof(chunk));
    if (n > 0)
      buffer_.append(chunk, static_cast<size_t>(n));
    else if (n == 0) {
      reap();
      return Answer::ended;
    }
  }
}

void answer_lines(const std::function<Json(const Json& request)>& answer) {
  const auto refuse = [](const std::exception& error, bool user) {
    print_json({{"error", one_line(error.what())}, {"user", user}});
  };
  for (std::string line; std::getline(std::cin, line);) {
    try {
      print_json(answer(Json::parse(line)));
    } catch (const UserError& error) {
      refuse(error, true);
    } catch (const std::exception& error) {
      refuse(error, false);
    }
  }
}

}  // namespace heddle::tools
