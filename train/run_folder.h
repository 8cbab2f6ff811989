// RunFolder: the folder of one training run.
//
//   config.toml          every option (train/config.h)
//   environment.json     what the numbers depend on beside the options
//   metrics.jsonl        one JSON object a line, as training goes
//   checkpoints/         train/checkpoint.h
//
// Invariants: one process at a time trains into a folder (a lock that ends with the process); a run is never
// overwritten: a folder that holds one is refused unless it is to be gone on with. A line that a killed process left
// unfinished is cut off before anything is appended. Errors: IoError, ValueError. Thread safety: append() may be called
// by several threads.
#pragma once

#include <string>
#include <string_view>

#include "heddle/core/device/context.h"
#include "heddle/train/config.h"

namespace heddle::train {

class RunFolder {
 public:
  // Makes the folder where it is missing.
  RunFolder(const std::string& path, bool resume);
  ~RunFolder();
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const;
  std::string checkpoints() const { return checkpoints_of(path_); }
  static std::string checkpoints_of(const std::string& folder);
  // Whether something of a run lies there.
  static bool exists(const std::string& folder);

  void write_config(const Config& config) const;
  // Of this process; what an earlier one wrote is kept in it under "earlier".
  void write_environment(const DeviceContext& device) const;
  // One JSON object, without a line break, to metrics.jsonl: readers see it at once.
  void append(std::string_view json) const;

 private:
  void lock();
  void open_metrics();

  std::string path_;
  int lock_ = -1, metrics_ = -1;
};

// Device, driver, versions, compiler, commit, host, command and time of start, as a JSON object.
std::string environment_json(const DeviceContext& device);

}  // namespace heddle::train
