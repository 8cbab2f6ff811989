#include "tools/worker_process.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <iostream>
#include <system_error>

#include "heddle/core/base/error.h"
#include "heddle/core/base/system/machine.h"

namespace heddle::tools {
namespace {

std::unique_ptr<os::ChildProcess> start(const std::vector<std::string>& arguments, bool keep_errors) try {
  std::vector<std::string> words = {"heddle"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  os::ChildOptions options;
  options.input = os::ChildStream::pipe;
  if (keep_errors) options.error = os::ChildStream::same;
  return std::make_unique<os::ChildProcess>(os::program_file(), words, options);
} catch (const std::system_error& error) {
  throw DeviceError(fmt::format("[worker] cannot start a worker process: {}", error.code().message()));
}

}  // namespace

WorkerProcess::WorkerProcess(const std::vector<std::string>& arguments, bool keep_errors)
    : child_(start(arguments, keep_errors)) {}

WorkerProcess::~WorkerProcess() = default;

bool WorkerProcess::alive() const { return child_->running(); }

void WorkerProcess::reap() {
  if (alive()) end_ = child_->wait().str();
}

void WorkerProcess::kill() {
  child_->kill();
  reap();
}

WorkerProcess::Answer WorkerProcess::ask(const std::string& line, double seconds, std::string& answer,
                                         bool (*interrupted)()) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::duration<double>(seconds);
  if (!child_->write(line + "\n")) {
    kill();
    return Answer::ended;
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
    if (!child_->read(buffer_, nullptr, std::min(left, 0.2)) && buffer_.find('\n') == std::string::npos) {
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
