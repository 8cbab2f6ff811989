#include "tests/cli/subprocess.h"

#include <sstream>

#include "heddle/core/base/system/process.h"

namespace heddle::test {
namespace {

using Clock = std::chrono::steady_clock;
using os::ChildStream;

os::ChildOptions child_options(const RunOptions& options) {
  os::ChildOptions child;
  child.error = ChildStream::pipe;
  child.own_group = false;
  if (options.output == Output::full_disk) child.output = ChildStream::full;
  if (options.output == Output::broken_pipe) child.output = ChildStream::broken;
  if (options.output == Output::closed) child.input = child.output = child.error = ChildStream::closed;
  // Each test has a cache folder of its own: every training would do it.
  if (!options.environment.contains("HEDDLE_SELF_TEST")) child.variables.emplace_back("HEDDLE_SELF_TEST", "0");
  child.variables.insert(child.variables.end(), options.environment.begin(), options.environment.end());
  return child;
}

}  // namespace

std::vector<std::string> Finished::out_lines() const {
  std::vector<std::string> lines;
  std::istringstream in(out);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Finished run_program(const std::vector<std::string>& command, const RunOptions& options) {
  os::ChildProcess child(command.at(0), command, child_options(options));
  Finished result;
  const auto deadline = Clock::now() + options.limit;
  bool interrupted = options.interrupt_after.empty(), killed = false;
  while (child.read(result.out, &result.err, 0.005)) {
    if (!interrupted && result.out.find(options.interrupt_after) != std::string::npos) {
      child.send_signal(options.signal);
      interrupted = true;
    }
    if (!killed && Clock::now() > deadline) {
      child.kill();
      killed = true;
    }
  }
  const os::ChildEnd& end = child.wait();
  result.exit_code = end.exit_code;
  result.signal = end.signal;
  return result;
}

Finished run_heddle(std::vector<std::string> arguments, const RunOptions& options) {
  arguments.insert(arguments.begin(), std::string(HEDDLE_BINARY_DIR) + "/bin/heddle");
  return run_program(arguments, options);
}

}  // namespace heddle::test
