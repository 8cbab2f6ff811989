#include "heddle/train/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

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
#include "heddle/train/checked_file.h"
#include "heddle/train/prefix.h"
#include "heddle/train/sharded_checkpoint.h"

namespace heddle::train {
namespace {

constexpr std::string_view prefix = "step-", suffix = ".safetensors";
constexpr const char* score_key = "score";

WholeCheckpoint read_whole(const std::string& path, States states) {
  WholeCheckpoint whole{read_checked(path).file, {}};
  join_shards(path, whole, states != States::left_out);
  return whole;
}

struct Whole {
  int64_t step = 0;
  std::string path;
  WholeCheckpoint file;
};

// The newest of a folder's files of these steps (ascending) that is whole; what is wrong with newer ones is added to
// `broken`.
std::optional<Whole> newest_whole(const std::string& folder, std::vector<int64_t> steps, States states,
                                  std::vector<std::string>& broken) {
  for (; !steps.empty(); steps.pop_back()) {
    const std::string path = checkpoint_path(folder, steps.back());
    try {
      return Whole{steps.back(), path, read_whole(path, states)};
    } catch (const IoError& error) {
      broken.emplace_back(error.what());
    }
  }
  return std::nullopt;
}

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

Checkpoint to_device(WholeCheckpoint whole, DeviceContext* device, States states) {
  Checkpoint checkpoint{{}, std::move(whole.file.metadata), nullptr};
  SafetensorsBytes chosen;
  for (const auto& [name, tensor] : whole.file.tensors) {
    if (states == States::on_device || !name.starts_with(optimizer_prefix)) chosen.tensors.emplace(name, tensor);
  }
  checkpoint.tensors = chosen.upload(device);
  if (states == States::on_host) checkpoint.bytes = std::make_shared<const WholeCheckpoint>(std::move(whole));
  return checkpoint;
}

CheckpointWriter::CheckpointWriter(const std::string& folder, const CheckpointOptions& options)
    : folder_(folder), options_(options) {
  if (options.keep_last < 1)
    throw ValueError(fmt::format("[checkpoint] keep_last is {}, expected at least 1", options.keep_last));
  require_writable_folder(folder);
  remove_unfinished(folder, [](std::string_view name) { return step_of(name) || step_of(checkpoint_of_shard(name)); });
  remove_lost_shards();
  for (const int64_t step : checkpoint_steps(folder)) {
    try {
      kept_.push_back({step, score_in(read_whole(checkpoint_path(folder, step), States::on_host).file.metadata)});
    } catch (const IoError&) {  // never the best one, nor one of the last
    }
  }
}

std::string CheckpointWriter::save(int64_t step, const Checkpoint& checkpoint, std::optional<double> score,
                                   const AroundWriting& around) {
  wait();
  if (score && !std::isfinite(*score)) score.reset();
  const auto snapshot = std::make_shared<Snapshot>(checkpoint.tensors, checkpoint.metadata);
  if (score) snapshot->add(score_key, fmt::format("{}", *score));
  writing_.start([this, file = Kept{step, score}, snapshot, around] {
    std::exception_ptr failure;
    if (around.before) {
      for (const auto& [key, value] : around.before()) snapshot->add(key, value);
    }
    try {
      write(file, *snapshot);
    } catch (...) {
      if (!around.after) throw;
      failure = std::current_exception();
    }
    if (around.after) around.after(failure);
  });
  return checkpoint_path(folder_, step);
}

void CheckpointWriter::write(const Kept& file, Snapshot& snapshot) {
  snapshot.write(checkpoint_path(folder_, file.step));
  std::erase_if(kept_, [&](const Kept& kept) { return kept.step >= file.step; });
  kept_.push_back(file);
  remove_old();
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
  remove_lost_shards();
}

// Of checkpoints that went, or that no file ever came to name.
void CheckpointWriter::remove_lost_shards() const {
  const std::vector<std::string> names = files_of(folder_);
  for (const std::string& name : names) {
    const std::string whole = checkpoint_of_shard(name);
    if (!step_of(whole) || std::ranges::find(names, whole) != names.end()) continue;
    std::error_code ignored;
    fs::remove(fs::path(folder_) / name, ignored);
  }
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

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  Snapshot(checkpoint.tensors, checkpoint.metadata).write(path);
}

const TensorBytesMap& Checkpoint::on_host() const {
  static const TensorBytesMap none;
  return bytes ? bytes->file.tensors : none;
}

Checkpoint load_checkpoint(const std::string& path, DeviceContext* device, States states) {
  try {
    return to_device(read_whole(path, states), device, states);
  } catch (const IoError& error) {
    const fs::path name(path);
    const std::string folder = name.parent_path().string();
    const std::optional<int64_t> own = step_of(name.filename().string());
    std::vector<int64_t> steps = own ? checkpoint_steps(folder) : std::vector<int64_t>();
    std::erase_if(steps, [&](int64_t step) { return step >= *own; });
    std::vector<std::string> broken;
    if (const auto older = newest_whole(folder, std::move(steps), states, broken))
      throw IoError(fmt::format("{}; the one before it is whole: {}", error.what(), older->path));
    throw;
  }
}

std::optional<LatestCheckpoint> load_latest_checkpoint(const std::string& folder, DeviceContext* device,
                                                       States states) {
  std::vector<std::string> broken;
  if (auto whole = newest_whole(folder, checkpoint_steps(folder), states, broken)) {
    return LatestCheckpoint{whole->step, whole->path, to_device(std::move(whole->file), device, states),
                            std::move(broken)};
  }
  if (!broken.empty())
    throw IoError(fmt::format("[checkpoint] {}: no checkpoint is whole: {}", folder, fmt::join(broken, "; ")));
  return std::nullopt;
}

std::optional<LatestCheckpoint> load_best_checkpoint(const std::string& folder, DeviceContext* device) {
  std::optional<Whole> best;
  std::vector<std::string> broken;
  for (const int64_t step : checkpoint_steps(folder)) {
    std::optional<Whole> whole = newest_whole(folder, {step}, States::left_out, broken);
    const std::optional<double> score = whole ? score_in(whole->file.file.metadata) : std::nullopt;
    if (score && (!best || *score < *score_in(best->file.file.metadata))) best = std::move(whole);
  }
  if (!best) return std::nullopt;
  return LatestCheckpoint{best->step, best->path, to_device(std::move(best->file), device, States::left_out),
                          std::move(broken)};
}

}  // namespace heddle::train
