#include "heddle/train/run_folder.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/path.h"
#include "heddle/io/atomic_file.h"

namespace heddle::train {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::string& path, const char* doing) {
  throw IoError(fmt::format("[run] {}: cannot {}: {}", path, doing, std::strerror(errno)));
}

int open_or_fail(const std::string& path, FileAccess access) {
  const int descriptor = open_file(path, access);
  if (descriptor < 0) fail(path, "open it");
  return descriptor;
}

// Bytes up to the last whole line.
int64_t whole_lines(int descriptor, const std::string& path) {
  int64_t end = os::seek_end(descriptor);
  if (end < 0) fail(path, "find its end");
  char c = 0;
  while (end > 0 && os::read_at(descriptor, &c, 1, static_cast<uint64_t>(end - 1)) == 1 && c != '\n') --end;
  return end;
}

// What stands there already, as an object; nothing where there is none, or something else.
std::optional<nlohmann::json> earlier_environment(const std::string& path) {
  std::string text;
  read_contents(path, text);  // nothing where there is none
  std::optional<nlohmann::json> json = try_parse_json(text);
  if (json && !json->is_object()) json.reset();
  return json;
}

}  // namespace

bool RunFolder::exists(const std::string& folder) {
  std::error_code code;
  return fs::exists(fs::path(folder) / "config.toml", code) || fs::exists(fs::path(folder) / "metrics.jsonl", code) ||
         fs::exists(fs::path(folder) / "checkpoints", code);
}

RunFolder::RunFolder(const std::string& path, bool resume) : path_(path) {
  if (resume && !exists(path)) throw ValueError(fmt::format("[run] {}: holds no run to go on with", path));
  if (!resume && exists(path))
    throw ValueError(fmt::format("[run] {}: holds a run; --resume goes on with it, --out names another folder", path));
  require_writable_folder(path);
  lock();
  try {
    remove_unfinished(path_);
    open_metrics();
  } catch (...) {
    os::close_file(lock_);
    throw;
  }
}

RunFolder::~RunFolder() {
  if (metrics_ >= 0) os::close_file(metrics_);
  os::close_file(lock_);
}

std::string RunFolder::file(std::string_view name) const { return (fs::path(path_) / name).string(); }

std::string RunFolder::checkpoints_of(const std::string& folder) { return (fs::path(folder) / "checkpoints").string(); }

// The file stays: only the lock on it says anything.
void RunFolder::lock() {
  lock_ = open_or_fail(file(".lock"), FileAccess::update);
  const os::Lock taken = os::lock_file(lock_);
  if (taken == os::Lock::taken) return;
  const int reason = errno;
  os::close_file(lock_);
  if (taken == os::Lock::busy)
    throw ValueError(fmt::format("[run] {}: another process is training into this folder", path_));
  errno = reason;
  fail(path_, "lock it");
}

void RunFolder::open_metrics() {
  const std::string path = file("metrics.jsonl");
  metrics_ = open_or_fail(path, FileAccess::append);
  if (!os::cut_file(metrics_, whole_lines(metrics_, path))) fail(path, "cut off its unfinished line");
}

void RunFolder::write_config(const Config& config) const { write_file_atomically(file("config.toml"), config.str()); }

void RunFolder::write_environment(const DeviceContext& device) const {
  Json now = Json::parse(environment_json(device));  // our own text
  if (std::optional<nlohmann::json> before = earlier_environment(file("environment.json"))) {
    nlohmann::json earlier = before->contains("earlier") ? std::move((*before)["earlier"]) : nlohmann::json::array();
    before->erase("earlier");
    if (!earlier.is_array()) earlier = nlohmann::json::array();
    earlier.push_back(std::move(*before));
    now["earlier"] = std::move(earlier);
  }
  write_file_atomically(file("environment.json"), now.dump(2) + "\n");
}

void RunFolder::append(std::string_view json) const {
  const std::string line = std::string(json) + '\n';
  if (!append_whole(metrics_, line)) fail(file("metrics.jsonl"), "append a line");
}

}  // namespace heddle::train
