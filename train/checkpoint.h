// Checkpoints of a run: tensors and strings in one safetensors file under checksums, written beside training. States of
// optimizers that ranks share stand in files beside it, which it names (train/sharded_checkpoint.h).
//
// Purpose: whatever happens to the process or the disk, a run can be gone on with from the newest file that is whole.
// Names: step-00001234.safetensors. Invariants: a file has its name only when all of it is on the disk; every tensor,
// and everything else that the file says (metadata, names, dtypes, shapes), is under a CRC-32, so a flipped bit or a
// missing byte is found when it is read; the last `keep_last` and the best one stay, older ones go after a newer one is
// on the disk, and so do those of later steps, which a run that went on from an earlier one has abandoned. Errors:
// IoError with the path and the tensor. Those of writing reach the next call of the writer. Thread safety: a writer is
// driven by one thread; functions are pure.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/io/safetensors.h"
#include "heddle/train/background_task.h"

namespace heddle::train {

class Snapshot;
struct WholeCheckpoint;

struct Checkpoint {
  TensorMap tensors;
  Metadata metadata;  // no key `crc32` and none that begins with `crc32.`: the file keeps its checksums there
  std::shared_ptr<const WholeCheckpoint> bytes = {};
  // All tensors of the file, where it was read with States::on_host; otherwise none.
  const TensorBytesMap& on_host() const;
};

// Where states of optimizers go that are read: all the rest goes to the device.
enum class States : uint8_t { on_device, on_host, left_out };

struct CheckpointOptions {
  int64_t keep_last = 3;
  bool keep_best = true;
};

// What the thread that writes does besides, where a save is one of several ranks.
struct AroundWriting {
  std::function<Metadata()> before = {};                       // gives what is added to the file's metadata
  std::function<void(std::exception_ptr failure)> after = {};  // of what came before, if any
};

class CheckpointWriter {
 public:
  // Into a folder that nobody else writes to; makes it where it is missing, and removes what a killed process left of
  // unfinished files.
  explicit CheckpointWriter(const std::string& folder, const CheckpointOptions& options = {});
  // Waits; an error of the last file is lost, so wait() before.
  ~CheckpointWriter() = default;
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Observes the tensors: when it returns their values are on the host, and a thread writes them. Waits for the file
  // before, so that at most one copy is held. `score`, where there is one, says how good the model is (less is better,
  // e.g. a validation loss): the file with the lowest is the best. Returns the path that the file will have.
  std::string save(int64_t step, const Checkpoint& checkpoint, std::optional<double> score = {},
                   const AroundWriting& around = {});
  // Until everything saved so far is on the disk.
  void wait() { writing_.wait(); }

 private:
  struct Kept {
    int64_t step = 0;
    std::optional<double> score;
  };
  void write(const Kept& file, Snapshot& snapshot);
  void remove_old();
  void remove_lost_shards() const;

  std::string folder_;
  CheckpointOptions options_;
  std::vector<Kept> kept_;  // by step; the thread's while it runs
  BackgroundTask writing_;
};

std::string checkpoint_path(const std::string& folder, int64_t step);
// Steps of the files in a folder, the oldest first; whether they are whole is not known.
std::vector<int64_t> checkpoint_steps(const std::string& folder);

// Of a file, or what stands for one: what `states` asks for goes to the device, and all is kept on the host where it
// asks for that.
Checkpoint to_device(WholeCheckpoint whole, DeviceContext* device, States states);

// One file, at once, on this thread.
void save_checkpoint(const std::string& path, const Checkpoint& checkpoint);
// Reads and checks a file. The error for a damaged one names the newest whole one beside it that is older.
Checkpoint load_checkpoint(const std::string& path, DeviceContext* device = nullptr, States states = States::on_device);

struct LatestCheckpoint {
  int64_t step = 0;
  std::string path;
  Checkpoint checkpoint;
  std::vector<std::string> broken;  // what is wrong with newer ones, the newest first
};
// The newest whole one of a folder; nothing where there is none at all. IoError when all are broken, naming each.
std::optional<LatestCheckpoint> load_latest_checkpoint(const std::string& folder, DeviceContext* device = nullptr,
                                                       States states = States::on_device);

// Of the whole files of a folder the one with the lowest score, without states of optimizers; nothing where none has
// one.
std::optional<LatestCheckpoint> load_best_checkpoint(const std::string& folder, DeviceContext* device = nullptr);

}  // namespace heddle::train
