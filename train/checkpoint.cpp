#include "heddle/train/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/path.h"
#include "heddle/io/atomic_file.h"

namespace heddle::train {
namespace {

constexpr std::string_view prefix = "step-", suffix = ".safetensors";
// Entries of the metadata: one for each tensor, and one for all that is not an element of a tensor.
constexpr std::string_view tensor_crc = "crc32.", header_crc = "crc32";
constexpr const char* score_key = "score";

std::string crc_of(const void* data, size_t bytes) {
  return fmt::format("{:08x}", ::crc32_z(0, static_cast<const Bytef*>(data), bytes));
}

// Everything that a file says beside the elements, in one text. Lengths stand before names, so that no two files have
// the same text.
std::string header_text(const TensorBytesMap& tensors, const Metadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    if (key != header_crc) text += fmt::format("{}:{}={}:{};", key.size(), key, value.size(), value);
  }
  for (const auto& [name, tensor] : tensors)
    text += fmt::format("{}:{} {} {};", name.size(), name, name_of(tensor.dtype), tensor.shape.str());
  return text;
}

void add_checksums(const TensorBytesMap& tensors, Metadata& metadata) {
  for (const auto& [name, tensor] : tensors)
    metadata[std::string(tensor_crc) + name] = crc_of(tensor.bytes.data(), tensor.bytes.size());
  const std::string text = header_text(tensors, metadata);
  metadata[std::string(header_crc)] = crc_of(text.data(), text.size());
}

// What is left of the metadata is the caller's own.
void check_and_strip(const std::string& path, const TensorBytesMap& tensors, Metadata& metadata) {
  const auto expect = [&](const std::string& key, const std::string& found, const std::string& what) {
    const auto stored = metadata.find(key);
    if (stored == metadata.end())
      throw IoError(
          fmt::format("[checkpoint] {}: {} has no checksum; not a checkpoint of heddle train, or damaged", path, what));
    if (stored->second != found)
      throw IoError(fmt::format("[checkpoint] {}: {} does not match its checksum; the file is damaged", path, what));
  };
  const std::string text = header_text(tensors, metadata);
  expect(std::string(header_crc), crc_of(text.data(), text.size()), "its header");
  for (const auto& [name, tensor] : tensors) {
    const std::string key = std::string(tensor_crc) + name;
    expect(key, crc_of(tensor.bytes.data(), tensor.bytes.size()), fmt::format("tensor '{}'", name));
    metadata.erase(key);
  }
  metadata.erase(std::string(header_crc));
}

SafetensorsBytes read_checked(const std::string& path) {
  SafetensorsBytes file = read_safetensors(path);
  check_and_strip(path, file.tensors, file.metadata);
  return file;
}

struct Whole {
  int64_t step = 0;
  std::string path;
  SafetensorsBytes file;
};

// The newest of a folder's files of these steps (ascending) that is whole; what is wrong with newer ones is added to
// `broken`.
std::optional<Whole> newest_whole(const std::string& folder, std::vector<int64_t> steps,
                                  std::vector<std::string>& broken) {
  for (; !steps.empty(); steps.pop_back()) {
    const std::string path = checkpoint_path(folder, steps.back());
    try {
      return Whole{steps.back(), path, read_checked(path)};
    } catch (const IoError& error) {
      broken.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

// Values of tensors on the host, as they were when it was made.
struct Snapshot {
  std::vector<std::vector<uint8_t>> contents;
  TensorBytesMap tensors;
  Metadata metadata;

  Snapshot(Snapshot&&) = default;  // a copy's views would point into the original
  explicit Snapshot(const Checkpoint& checkpoint) : metadata(checkpoint.metadata) {
    for (const auto& [key, value] : metadata) {
      if (key == header_crc || key.starts_with(tensor_crc))
        throw ValueError(fmt::format("[checkpoint] metadata '{}' is a checksum's name; give it another", key));
    }
    for (const auto& [name, tensor] : checkpoint.tensors) {
      if (!tensor.defined()) throw ValueError(fmt::format("[checkpoint] tensor '{}' is not defined", name));
      contents.push_back(tensor.to_bytes());
      tensors.emplace(name, TensorBytes{tensor.dtype(), tensor.shape(), contents.back()});
    }
  }
  void write(const std::string& path) {
    add_checksums(tensors, metadata);
    write_safetensors(path, tensors, metadata);
  }
};

std::optional<int64_t> step_of(std::string_view name) {
  if (!name.starts_with(prefix) || !name.ends_with(suffix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  const auto step = parse_number<int64_t>(name);
  return step && *step >= 0 ? step : std::nullopt;
}

std::optional<double> score_in(const Metadata& metadata) {
  const auto found = metadata.find(score_key);
  return found == metadata.end() ? std::nullopt : parse_number<double>(found->second);
}

// Of the files of a folder, none where there is no folder. A folder that cannot be read is no empty one: a run would
// begin again over its checkpoints.
std::vector<std::string> files_of(const std::string& folder) {
  std::error_code code;
  std::vector<std::string> names = names_in(folder, code);
  if (code && code != std::errc::no_such_file_or_directory)
    throw IoError(fmt::format("[checkpoint] {}: cannot be listed: {}", folder, code.message()));
  return names;
}

}  // namespace

CheckpointWriter::CheckpointWriter(const std::string& folder, const CheckpointOptions& options)
    : folder_(folder), options_(options) {
  if (options.keep_last < 1)
    throw ValueError(fmt::format("[checkpoint] keep_last is {}, expected at least 1", options.keep_last));
  require_writable_folder(folder);
  remove_unfinished(folder, [](std::string_view name) { return step_of(name).has_value(); });
  for (const int64_t step : checkpoint_steps(folder)) {
    try {
      kept_.push_back({step, score_in(read_checked(checkpoint_path(folder, step)).metadata)});
    } catch (const IoError&) {  // never the best one, nor one of the last
    }
  }
}

CheckpointWriter::~CheckpointWriter() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::wait() {
  if (thread_.joinable()) thread_.join();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

std::string CheckpointWriter::save(int64_t step, const Checkpoint& checkpoint, std::optional<double> score) {
  wait();
  if (score && !std::isfinite(*score)) score.reset();
  const std::string path = checkpoint_path(folder_, step);
  const auto snapshot = std::make_shared<Snapshot>(checkpoint);
  if (score) snapshot->metadata[score_key] = fmt::format("{}", *score);
  const auto write = [this, step, score, path, snapshot] {
    try {
      snapshot->write(path);
      std::erase_if(kept_, [&](const Kept& kept) { return kept.step >= step; });
      kept_.push_back({step, score});
      remove_old();
    } catch (...) {
      error_ = std::current_exception();
    }
  };
  try {
    thread_ = std::thread(write);
  } catch (const std::system_error&) {  // the system has no more threads: it is written here
    write();
  }
  return path;
}

void CheckpointWriter::remove_old() {
  const auto worse = [](const Kept& a, const Kept& b) { return b.score && (!a.score || *b.score < *a.score); };
  const auto best = std::max_element(kept_.begin(), kept_.end(), worse);
  const int64_t best_step = options_.keep_best && best->score ? best->step : -1;
  const int64_t first_kept = kept_[kept_.size() - std::min(kept_.size(), static_cast<size_t>(options_.keep_last))].step;
  for (const int64_t step : checkpoint_steps(folder_)) {
    std::error_code ignored;
    const bool abandoned = step > kept_.back().step;  // of a run that went on from an earlier one
    if (abandoned || (step < first_kept && step != best_step)) fs::remove(checkpoint_path(folder_, step), ignored);
  }
  std::erase_if(kept_, [&](const Kept& kept) { return kept.step < first_kept && kept.step != best_step; });
}

std::string checkpoint_path(const std::string& folder, int64_t step) {
  return (fs::path(folder) / fmt::format("{}{:08}{}", prefix, step, suffix)).string();
}

std::vector<int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<int64_t> steps;
  for (const std::string& name : files_of(folder)) {
    const std::optional<int64_t> step = step_of(name);
    if (step && fs::path(checkpoint_path(folder, *step)).filename() == name) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) { Snapshot(checkpoint).write(path); }

Checkpoint load_checkpoint(const std::string& path, DeviceContext* device) {
  try {
    SafetensorsBytes file = read_checked(path);
    return {file.upload(device), std::move(file.metadata)};
  } catch (const IoError& error) {
    const fs::path name(path);
    const std::string folder = name.parent_path().string();
    const std::optional<int64_t> own = step_of(name.filename().string());
    std::vector<int64_t> steps = own ? checkpoint_steps(folder) : std::vector<int64_t>();
    std::erase_if(steps, [&](int64_t step) { return step >= *own; });
    std::vector<std::string> broken;
    if (const auto older = newest_whole(folder, std::move(steps), broken))
      throw IoError(fmt::format("{}; the one before it is whole: {}", error.what(), older->path));
    throw;
  }
}

std::optional<LatestCheckpoint> load_latest_checkpoint(const std::string& folder, DeviceContext* device) {
  std::vector<std::string> broken;
  if (auto whole = newest_whole(folder, checkpoint_steps(folder), broken)) {
    return LatestCheckpoint{
        whole->step, whole->path, {whole->file.upload(device), std::move(whole->file.metadata)}, std::move(broken)};
  }
  if (!broken.empty())
    throw IoError(fmt::format("[checkpoint] {}: no checkpoint is whole: {}", folder, fmt::join(broken, "; ")));
  return std::nullopt;
}

std::optional<LatestCheckpoint> load_best_checkpoint(const std::string& folder, DeviceContext* device) {
  std::optional<Whole> best;
  std::vector<std::string> broken;
  for (const int64_t step : checkpoint_steps(folder)) {
    std::optional<Whole> whole = newest_whole(folder, {step}, broken);
    const std::optional<double> score = whole ? score_in(whole->file.metadata) : std::nullopt;
    if (score && (!best || *score < *score_in(best->file.metadata))) best = std::move(whole);
  }
  if (!best) return std::nullopt;
  return LatestCheckpoint{
      best->step, best->path, {best->file.upload(device), std::move(best->file.metadata)}, std::move(broken)};
}

}  // namespace heddle::train
