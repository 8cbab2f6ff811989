// Safetensors files under checksums. Internal to train/checkpoint.h and train/sharded_checkpoint.h.
//
// Invariants: every tensor, and everything else that the file says (metadata, names, dtypes, shapes), is under a CRC-32
// that stands in the metadata, so a flipped bit or a missing byte is found when it is read; the one of all but elements
// covers those of the tensors. A file has its name only when all of it is on the disk. Errors: IoError with the path
// and the tensor; ValueError for metadata with names of checksums, and for tensors that are not defined. Thread safety:
// functions are pure; a snapshot is written by one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/io/safetensors.h"

namespace heddle::train {

// Values of tensors on the host, as they were when it was made.
class Snapshot {
 public:
  Snapshot(const TensorMap& tensors, const Metadata& metadata);
  Snapshot(Snapshot&&) = default;  // a copy's views would point into the original
  void add(const std::string& key, const std::string& value) { metadata_[key] = value; }
  // A piece (train/state_pieces.h) of a tensor of the shape `whole`: its elements from `begin` on.
  void add_piece(const std::string& name, const Shape& whole, int64_t begin, const Tensor& values);
  // What write() would write, but for the checksums.
  std::vector<uint8_t> bytes() const;
  // Gives the checksum of all but elements.
  std::string write(const std::string& path);

 private:
  std::vector<std::vector<uint8_t>> contents_;
  TensorBytesMap tensors_;
  Metadata metadata_;
};

// Of a file that is whole. The metadata is what was given to its snapshot.
struct CheckedFile {
  SafetensorsBytes file;
  std::string checksum;  // as write() gave it
};
CheckedFile read_checked(const std::string& path);

}  // namespace heddle::train
