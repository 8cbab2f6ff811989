// A child process that answers lines with lines, and is killed when it does not.
//
// Purpose: `heddle tune` runs candidates in one, `heddle doctor` checks, so that a hang or a crash costs one of them.
// Invariants: the child does not get the terminal's Ctrl-C (the parent decides); it is dead and reaped when this object
// is gone. Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/system/process.h"
#include "tools/cli.h"

namespace heddle::tools {

class WorkerProcess {
 public:
  // Starts this program with these arguments; its standard error is dropped unless `keep_errors`. DeviceError when it
  // cannot be started.
  WorkerProcess(const std::vector<std::string>& arguments, bool keep_errors);
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  enum class Answer { line, ended, timeout, interrupted };
  // Sends a line and waits for the answer. After anything but `line` and `interrupted` the process is dead.
  // `interrupted` is asked a few times a second.
  Answer ask(const std::string& line, double seconds, std::string& answer, bool (*interrupted)());
  bool alive() const;
  // "signal 6", "exit code 1": after `ended`.
  const std::string& end() const { return end_; }
  void kill();

 private:
  void reap();

  std::unique_ptr<os::ChildProcess> child_;
  std::string buffer_, end_;
};

// The child's side: answers each line of JSON on standard input with one, until it ends. What `answer` throws becomes
// {"error": text, "user": whether it is the user's mistake}.
void answer_lines(const std::function<Json(const Json& request)>& answer);

}  // namespace heddle::tools
