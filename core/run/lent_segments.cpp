#include "heddle/core/run/lent_segments.h"

#include <algorithm>
#include <utility>

#include "heddle/core/graph/post_order.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/run/segments.h"

namespace heddle {

LentSegments::LentSegments(std::vector<NodePtr> ends, std::span<const NodePtr> roots, Lender& lender)
    : lender_(lender), ends_(std::move(ends)) {
  for (const NodePtr& end : ends_) wanted_[end.get()] = true;
  for (const NodePtr& root : roots) wanted_[root.get()] = true;
  for (const NodePtr& end : ends_) add(end);
  for (const NodePtr& root : roots) add(root);
  Groups all;
  uint64_t most = 0;
  for (const auto& [node, groups] : reads_) all.insert(groups.begin(), groups.end());
  for (const size_t group : all) most = std::max(most, lender_.bytes_of(group));
  for (cut(most); bytes_brought() > 2 * bytes_of(all); cut(most)) most *= 2;
  for (const NodePtr& root : roots) last_reads_.note(*root, count());
  last_reads_.note(order_, segment_, [this](const Node& node) { return computed_again(node); });
  guards_ = values_read(order_);
}

void LentSegments::add(const NodePtr& root) {
  const auto is_new = [&](const NodePtr& node) {
    return !node->has_value() && !is_lent(*node) && reads_.try_emplace(node.get()).second;
  };
  if (!is_new(root)) return;
  post_order(
      root, is_new, [](const Node&) { return true; },
      [&](const NodePtr& node) {
        order_.push_back(node);
        note_reads(*node);
      });
}

void LentSegments::note_reads(const Node& node) {
  from_lent_[&node] = made_of_lent(node);
  reads_[&node] = reads_of(node);
}

bool LentSegments::made_of_lent(const Node& node) const {
  const bool cheap = node.op->kind == OpKind::elementwise || node.op->kind == OpKind::movement;
  bool lent = false;
  for (const NodePtr& input : node.inputs) {
    const auto known = from_lent_.find(input.get());
    const bool made = is_lent(*input) || (known != from_lent_.end() && known->second);
    if (!made && !input->host && input->op->kind != OpKind::constant) return false;
    lent = lent || made;
  }
  return cheap && lent;
}

bool LentSegments::computed_again(const Node& node) const { return is_repeated(node) || from_lent_.at(&node); }

LentSegments::Groups LentSegments::reads_of(const Node& node) const {
  Groups groups;
  for (const NodePtr& input : node.inputs) {
    if (is_lent(*input)) groups.insert(group_of(*input));
    if (is_lent(*input) || input->has_value() || !computed_again(*input)) continue;
    const Groups& below = reads_.at(input.get());
    groups.insert(below.begin(), below.end());
  }
  return groups;
}

// Numbers all nodes; a segment takes groups of so many bytes together.
void LentSegments::cut(uint64_t most) {
  groups_.assign(1, {});
  segment_of_end_.assign(ends_.size(), 0);
  bool ended = false;
  for (const NodePtr& node : order_) {
    const bool asks = wanted_.contains(node.get()) || !computed_again(*node);
    const Groups& needs = reads_.at(node.get());
    if (asks) {
      Groups both = groups_.back();
      both.insert(needs.begin(), needs.end());
      const bool fits = groups_.back().empty() || both == groups_.back() || bytes_of(both) <= most;
      if (ended || !fits)
        groups_.push_back(needs);
      else
        groups_.back() = std::move(both);
      ended = std::ranges::find(ends_, node) != ends_.end();
    }
    segment_[node.get()] = groups_.size() - 1;
  }
  for (size_t i = 0; i < ends_.size(); ++i) {
    const auto found = segment_.find(ends_[i].get());
    if (found != segment_.end()) segment_of_end_[i] = found->second;
  }
}

uint64_t LentSegments::bytes_of(const Groups& groups) const {
  uint64_t bytes = 0;
  for (const size_t group : groups) bytes += lender_.bytes_of(group);
  return bytes;
}

// In all: what the segment before has is there.
uint64_t LentSegments::bytes_brought() const {
  uint64_t bytes = 0;
  for (size_t s = 0; s < groups_.size(); ++s) {
    for (const size_t group : groups_[s]) {
      if (s == 0 || !groups_[s - 1].contains(group)) bytes += lender_.bytes_of(group);
    }
  }
  return bytes;
}

std::vector<NodePtr> LentSegments::roots_of(size_t segment) const {
  std::vector<NodePtr> roots;
  for (const NodePtr& node : order_) {
    if (segment_.at(node.get()) != segment || node->has_value()) continue;
    const bool asked = wanted_.contains(node.get()) || !computed_again(*node);
    const bool is_end = std::ranges::find(ends_, node) != ends_.end();
    if (is_end || (asked && last_reads_.of(*node, segment) > segment)) roots.push_back(node);
  }
  return roots;
}

bool LentSegments::read_later(size_t group, size_t segment) const {
  const auto reads = [&](const Groups& groups) { return groups.contains(group); };
  if (segment + 1 == count()) return false;
  return lender_.keeps() ? std::any_of(groups_.begin() + static_cast<std::ptrdiff_t>(segment) + 1, groups_.end(), reads)
                         : reads(groups_[segment + 1]);
}

void LentSegments::evaluate(size_t segment) {
  for (const size_t group : groups_[segment]) lender_.lend(group);
  evaluate_now(roots_of(segment));
  if (segment + 1 < count()) {
    for (const size_t group : groups_[segment + 1]) lender_.fetch(group);
  }
  for (const size_t group : groups_[segment]) {
    if (!read_later(group, segment)) lender_.take_back(group);
  }
  for (size_t i = 0; i < ends_.size(); ++i) {
    if (segment_of_end_[i] == segment) ends_[i].reset();
  }
  std::erase_if(order_, [&](const NodePtr& node) { return segment_.at(node.get()) <= segment; });
}

std::shared_ptr<void> lend_for(std::span<const NodePtr> roots) {
  Lender* const lender = LenderScope::current();
  if (lender == nullptr || !any_without_value(roots, is_lent)) return nullptr;
  LentSegments segments({}, roots, *lender);
  const size_t last = segments.count() - 1;
  for (size_t s = 0; s < last; ++s) segments.evaluate(s);
  const auto borrowed = std::shared_ptr<std::vector<size_t>>(new std::vector<size_t>(), [lender](auto* groups) {
    for (const size_t group : *groups) lender->take_back(group);
    delete groups;
  });
  for (const size_t group : segments.groups(last)) {
    lender->lend(group);
    borrowed->push_back(group);
  }
  return borrowed;
}

}  // namespace heddle
