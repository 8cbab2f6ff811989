// StatePieces: states of optimizers, and other tensors, that are put together of what several ranks have of them.
//
// Purpose: what a rank has stands in a safetensors file, or in the bytes of one (train/sharded_checkpoint.h,
// train/buddy_copies.h): elements [begin, end) of a tensor as "NAME[begin:end]", with the shape of the whole in the
// metadata, and whole tensors under their names. Invariants: whole tensors that several ranks have (counts of updates)
// are equal. Errors: IoError that names the source: a piece that is none, pieces that do not fit each other, gaps.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/io/safetensors.h"

namespace heddle::train {

// A tensor whose bytes are its own.
struct HostTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<uint8_t> bytes;
};

// Adds a tensor of the shape `whole`, of which `values` are the elements [begin, end).
void add_piece(TensorBytesMap& tensors, Metadata& metadata, const std::string& name, const Shape& whole, int64_t begin,
               const TensorBytes& values);

class StatePieces {
 public:
  // A rank's tensors, which stay where they are until join(); `source` is what errors name.
  void take(const std::string& source, const TensorBytesMap& tensors, const Metadata& metadata);

  // All of them, whole, by name; `source` is what gaps are named of.
  std::map<std::string, HostTensor> join(const std::string& source) const;

 private:
  // Elements of one tensor from all ranks.
  struct Pieces {
    Shape shape;
    DType dtype = DType::f32;
    std::map<int64_t, std::pair<int64_t, std::span<const uint8_t>>> by_begin;  // end, and the elements
  };
  void take_whole(const std::string& source, const std::string& name, const TensorBytes& tensor);

  std::map<std::string, Pieces> pieces_;
  TensorBytesMap whole_;
};

}  // namespace heddle::train
