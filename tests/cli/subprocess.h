// Runs a program and collects what it prints.
#pragma once

#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <vector>

namespace heddle::test {

struct Finished {
  int exit_code = -1;  // -1: did not exit by itself
  int signal = 0;      // what ended it, when exit_code is -1
  std::string out;
  std::string err;
  std::vector<std::string> out_lines() const;
};

// Where standard output goes: to who asks, to a full disk, nowhere (closed, as standard input and error are then), or
// into a pipe that nobody reads.
enum class Output { read, full_disk, closed, broken_pipe };

struct RunOptions {
  std::map<std::string, std::string> environment;  // on top of this process's
  // `signal` is sent when standard output contains this text; empty: never.
  std::string interrupt_after;
  int signal = SIGINT;
  Output output = Output::read;
  std::chrono::milliseconds limit{std::chrono::seconds(240)};  // killed after that
};

Finished run_program(const std::vector<std::string>& command, const RunOptions& options = {});
// The `heddle` of this build.
Finished run_heddle(std::vector<std::string> arguments, const RunOptions& options = {});

}  // namespace heddle::test
