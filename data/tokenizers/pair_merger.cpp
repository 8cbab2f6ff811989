#include "heddle/data/tokenizers/pair_merger.h"

namespace heddle::data::detail {
namespace {

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

void PairRanks::add(int32_t left, int32_t right, int32_t result) {
  of_.try_emplace(pair_key(left, right), Ranked{next_++, result});
}

const PairRanks::Ranked* PairRanks::find(int32_t left, int32_t right) const {
  const auto found = of_.find(pair_key(left, right));
  return found == of_.end() ? nullptr : &found->second;
}

void PairMerger::merge(std::span<const int32_t> word, std::vector<int32_t>& out) {
  parts_.clear();
  for (size_t i = 0; i < word.size(); ++i)
    parts_.push_back({word[i], i == 0 ? nowhere : i - 1, i + 1 == word.size() ? nowhere : i + 1});
  for (size_t i = 0; i + 1 < parts_.size(); ++i) offer(i);
  while (!candidates_.empty()) {
    const Candidate best = candidates_.top();
    candidates_.pop();
    join(best);
  }
  if (parts_.empty()) return;
  for (size_t i = 0; i != nowhere; i = parts_[i].next) out.push_back(parts_[i].token);
}

void PairMerger::offer(size_t at) {
  const int32_t left = parts_[at].token, right = parts_[parts_[at].next].token;
  if (const auto* found = ranks_.find(left, right)) candidates_.push({found->rank, at, left, right, found->result});
}

// Does nothing where one of the two has been joined meanwhile.
void PairMerger::join(const Candidate& c) {
  constexpr int32_t joined = -1;
  Part& left = parts_[c.at];
  if (left.token != c.left || left.next == nowhere || parts_[left.next].token != c.right) return;
  Part& right = parts_[left.next];
  left.token = c.result;
  left.next = right.next;
  right.token = joined;
  if (left.next != nowhere) {
    parts_[left.next].before = c.at;
    offer(c.at);
  }
  if (left.before != nowhere) offer(left.before);
}

}  // namespace heddle::data::detail
