#include "heddle/deploy/weight_store.h"

#include <algorithm>
#include <utility>

#include "heddle/core/base/hash.h"
#include "heddle/core/base/integers.h"
#include "heddle/io/model_parts.h"

namespace heddle {

WeightStore::WeightStore(std::string part, std::string known, std::span<const uint8_t> known_bytes)
    : part_(std::move(part)), known_(std::move(known)), known_bytes_(known_bytes) {
  for (size_t at = 0; at + part_alignment <= known_bytes.size(); at += part_alignment)
    known_at_.emplace(hash_bytes(known_bytes.data() + at, part_alignment), at);
}

ModelImage::Weight WeightStore::place(int32_t slot, std::span<const uint8_t> bytes) {
  uint64_t offset = 0;
  if (find_known(bytes, offset)) return {slot, known_, offset, bytes.size()};
  const auto [at, fresh] = own_at_.try_emplace(sha256(bytes), 0);
  if (fresh) {
    own_.resize(round_up(own_.size(), part_alignment), 0);
    at->second = own_.size();
    own_.insert(own_.end(), bytes.begin(), bytes.end());
  }
  return {slot, part_, at->second, bytes.size()};
}

bool WeightStore::find_known(std::span<const uint8_t> bytes, uint64_t& offset) const {
  if (bytes.size() < part_alignment) return false;
  const auto [first, last] = known_at_.equal_range(hash_bytes(bytes.data(), part_alignment));
  constexpr int most = 64;  // tables of zeros begin alike everywhere
  int looked = 0;
  for (auto at = first; at != last && looked < most; ++at, ++looked) {
    const bool inside = bytes.size() <= known_bytes_.size() - at->second;
    if (!inside ||
        !std::equal(bytes.begin(), bytes.end(), known_bytes_.begin() + static_cast<std::ptrdiff_t>(at->second)))
      continue;
    offset = at->second;
    return true;
  }
  return false;
}

}  // namespace heddle
