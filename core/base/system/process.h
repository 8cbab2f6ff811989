// Child processes: started, written to, read with a limit of time, killed, waited for.
//
// Invariants: a child is dead and reaped when its object is gone. It has this process's environment and variables set
// beside it, and none of its files but standard streams. Errors: std::system_error where it cannot be started. Thread
// safety: none.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace heddle::os {

// What is at the child's end of a standard stream.
enum class ChildStream {
  null,    // nothing to read; what is written is dropped
  pipe,    // this process
  same,    // what this process has
  output,  // standard error: what standard output has
  closed,
  broken,  // a pipe that nobody reads
  full,    // a disk without room, where the system has such a file
};

struct ChildOptions {
  ChildStream input = ChildStream::null, output = ChildStream::pipe, error = ChildStream::null;
  std::string folder;  // that it runs in; empty: this process's
  std::vector<std::pair<std::string, std::string>> variables;
  double cpu_seconds = 0;  // that it may compute before it is killed, where the system counts them; 0: any
  bool own_group = true;   // Ctrl-C does not reach it, and those that it started are killed with it
};

struct ChildEnd {
  int exit_code = -1;  // -1: it did not end by itself
  int signal = 0;      // what ended it, where the system has signals
  // "exit code 1", "signal 6".
  std::string str() const;
  // "SIGABRT"; "signal 64" where it has no name, empty where no signal ended it.
  std::string signal_name() const;
};

class ChildProcess {
 public:
  // `words` with the program's name first, as it sees it itself; `program` is the file.
  ChildProcess(const std::string& program, const std::vector<std::string>& words, const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // All of it into standard input; false when nobody reads there (see IgnoredPipes).
  bool write(const std::string& text);
  // Waits until something was printed, all pipes have ended or the time is over, and appends what there is; `error`
  // may be null. False: all have ended.
  bool read(std::string& output, std::string* error, double seconds);
  // Where the system has signals; else SIGINT is its Ctrl-Break, and others kill.
  void send_signal(int number);
  void kill();
  // Until it has ended; at once where it has been waited for.
  const ChildEnd& wait();
  bool running() const;  // not waited for yet

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Whether a process of that number has not ended yet, by whomever it was started.
bool is_running(int process);

}  // namespace heddle::os
