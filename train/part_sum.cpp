#include "heddle/train/part_sum.h"

#include <utility>

namespace heddle::train {
namespace {

// What came first stands left.
void add_to(std::span<float> right, const std::vector<float>& left) {
  for (size_t i = 0; i < right.size(); ++i) right[i] = left[i] + right[i];
}

}  // namespace

void PartSum::add(std::vector<float> list) {
  size_t level = 0;
  for (; level < full_.size() && full_[level]; ++level) {
    add_to(list, levels_[level]);
    full_[level] = false;
  }
  if (level == full_.size()) {
    levels_.emplace_back();
    full_.push_back(false);
  }
  levels_[level] = std::move(list);
  full_[level] = true;
}

void PartSum::finish(std::span<float> last) {
  for (size_t level = 0; level < full_.size(); ++level) {
    if (full_[level]) add_to(last, levels_[level]);
    full_[level] = false;
    levels_[level] = {};
  }
}

}  // namespace heddle::train
