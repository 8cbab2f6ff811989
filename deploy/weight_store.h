// WeightStore: bytes of weights, each kept once, in parts of a `.heddle` file.
//
// Purpose: images of several targets and buckets read the same weights; some of them lie in a part that is there
// already, the graph's. Invariants: each weight begins at a multiple of 64 bytes. Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "heddle/io/sha256.h"
#include "heddle/runtime/model_image.h"

namespace heddle {

class WeightStore {
 public:
  // `part`: of the weights that are not in `known_bytes`, the contents of the part `known`; those outlive this.
  explicit WeightStore(std::string part = "constants", std::string known = {},
                       std::span<const uint8_t> known_bytes = {});
  // Where these bytes lie, for that storage of an image.
  ModelImage::Weight place(int32_t slot, std::span<const uint8_t> bytes);
  const std::string& part() const { return part_; }
  // What is in no other part.
  std::span<const uint8_t> bytes() const { return own_; }

 private:
  bool find_known(std::span<const uint8_t> bytes, uint64_t& offset) const;

  std::string part_, known_;
  std::span<const uint8_t> known_bytes_;
  std::unordered_multimap<uint64_t, uint64_t> known_at_;  // by hash of 64 bytes: where in the known part
  std::map<Sha256Digest, uint64_t> own_at_;
  std::vector<uint8_t> own_;
};

}  // namespace heddle
