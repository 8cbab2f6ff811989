// Checkpoints of several ranks: states of optimizers in a file of each rank, beside the file of all the rest.
//
// Purpose: step-00001234.safetensors has the model, and in its metadata how many ranks there are and how long each
// rank's file is, with its checksum; step-00001234.rank-0-of-4.safetensors and the others have the states of what the
// rank owns, in pieces (train/state_pieces.h). Read together they are what one process would have written. Invariants:
// ranks' files are on the disk before the file that names them (train/shard_save.h), so that one is the commit. Errors:
// IoError that names the file: missing, of another length or checksum, of another step, states with gaps. Thread
// safety: functions are pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/io/safetensors.h"
#include "heddle/train/checked_file.h"
#include "heddle/train/optimizers.h"

namespace heddle::train {

// The file of a rank beside that of a checkpoint.
std::string shard_path(const std::string& checkpoint, int64_t rank, int64_t ranks);
// Of the name of such a file that of its checkpoint; empty for any other.
std::string checkpoint_of_shard(std::string_view name);

// What a rank owns, as it is now, on the host.
Snapshot snapshot_of_shards(int64_t step, const std::vector<Optimizers::ShardState>& states);
// A rank's file on the disk: its length, and the checksum of all but elements.
struct ShardFile {
  int64_t bytes = 0, checksum = 0;
};
ShardFile write_shard(Snapshot& part, const std::string& path);
// What the metadata of the checkpoint says of the files, by rank.
Metadata manifest_of(const std::vector<ShardFile>& files);

// A checkpoint's bytes with those of its shards.
struct WholeCheckpoint {
  SafetensorsBytes file;  // its tensors may point into `joined`
  std::vector<std::vector<uint8_t>> joined;
};
// Adds the shards that the metadata names, whose entries go, to the checkpoint of that path; nothing where it names
// none. `read` false: the entries alone.
void join_shards(const std::string& path, WholeCheckpoint& checkpoint, bool read);

}  // namespace heddle::train
