// ShardSave: one save of ranks that each have states of their own (train/sharded_checkpoint.h), beside training.
//
// Purpose: the values are on the host when it is made; the files are written, and the ranks agree, on a thread of each
// rank, in a group that no other thread calls. Order: each rank writes its part; all tell how that went; the first rank
// writes the file that names the parts, which is the commit, and removes old ones; all learn how that went. Invariants:
// a save fails on all ranks or on none, so that whoever waits for it knows that no rank writes or removes a file any
// more. Errors: IoError that names the rank that failed and why, the same on all ranks; those of distributed/errors.h.
// Thread safety: made by the thread that trains; then one other thread calls write_part() and end(), in this order, on
// every rank.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "heddle/distributed/group.h"
#include "heddle/io/safetensors.h"
#include "heddle/train/checked_file.h"
#include "heddle/train/optimizers.h"

namespace heddle::train {

class ShardSave {
 public:
  // `ranks`: all that save, in a group for this alone. `checkpoint`: the file that will name the parts.
  ShardSave(const distributed::Group& ranks, const std::string& checkpoint, int64_t step,
            const std::vector<Optimizers::ShardState>& states);

  // Waits for all ranks' parts; gives what the metadata of the checkpoint says of them.
  Metadata write_part();
  // Waits for the first rank's file. `failure`: of this rank since, if any; it is thrown again, and told to the others.
  void end(std::exception_ptr failure = nullptr);

 private:
  std::vector<int64_t> agree(std::exception_ptr failure, int64_t bytes, int64_t checksum);

  distributed::Group ranks_;
  std::string path_;
  Snapshot part_;
};

}  // namespace heddle::train
