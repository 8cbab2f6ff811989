#include "heddle/core/ir/dynamic_sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <string_view>

#include "heddle/core/base/across_runs.h"
#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

std::string_view bytes_of(const std::vector<uint64_t>& words) {
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t)};
}

uint16_t all_of(const Shape& shape) { return static_cast<uint16_t>((1u << shape.rank()) - 1); }
uint16_t bit(int d) { return static_cast<uint16_t>(1u << d); }

// Dimensions that a reshape keeps, counted from the front and from the back; the others vary if any of theirs does.
uint16_t through_reshape(const IrNode& from, const IrNode& to) {
  const int a = from.shape.rank(), b = to.shape.rank(), least = std::min(a, b);
  int front = 0, back = 0;
  while (front < least && from.shape[front] == to.shape[front]) ++front;
  while (back < least - front && from.shape[a - 1 - back] == to.shape[b - 1 - back]) ++back;
  uint16_t found = 0, between = 0;
  for (int d = front; d < a - back; ++d) between |= from.varies & bit(d);
  for (int d = 0; d < b; ++d) {
    const int source = d < front ? d : d >= b - back ? a - (b - d) : -1;
    if (source < 0 ? between != 0 : dimension_varies(from, source)) found |= bit(d);
  }
  return found;
}

uint16_t from_inputs(const Graph& graph, const IrNode& node) {
  const auto input = [&](size_t i) -> const IrNode& { return graph.nodes[static_cast<size_t>(node.inputs[i])]; };
  if (node.inputs.empty()) return all_of(node.shape);
  const IrNode& x = input(0);
  const uint16_t any = [&] {
    uint16_t found = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) found |= input(i).varies;
    return found != 0 ? all_of(node.shape) : uint16_t{0};
  }();
  uint16_t found = 0;
  if (node.op->kind == OpKind::elementwise) {
    found = varies::dimensions;  // equal shapes: what one knows holds for all
    for (size_t i = 0; i < node.inputs.size(); ++i) found &= input(i).varies;
    return found & all_of(node.shape);
  }
  if (node.op == &ops::permute_op) {
    const std::vector<int64_t>& order = order_of(node.attrs);
    for (size_t d = 0; d < order.size(); ++d)
      found |= dimension_varies(x, static_cast<int>(order[d])) ? bit(static_cast<int>(d)) : 0;
    return found;
  }
  if (node.op == &ops::reshape_op) return through_reshape(x, node);
  if (node.op->kind == OpKind::reduce) {
    int d = 0;
    for (int axis = 0; axis < x.shape.rank(); ++axis) {
      if (names_axis(node.attrs, axis)) continue;
      if (dimension_varies(x, axis) && d < node.shape.rank()) found |= bit(d);
      ++d;
    }
    return found;
  }
  if (node.op == &ops::matmul_op) {
    const int rank = node.shape.rank();
    found = x.varies & static_cast<uint16_t>(all_of(node.shape) & ~bit(rank - 1));
    return dimension_varies(input(1), rank - 1) ? static_cast<uint16_t>(found | bit(rank - 1)) : found;
  }
  return any;
}

}  // namespace

void settle_sizes(Graph& graph, bool any, size_t from) {
  for (size_t i = from; i < graph.nodes.size(); ++i) {
    IrNode& node = graph.nodes[i];
    if ((node.varies & varies::unknown) == 0) continue;
    node.varies = any ? static_cast<uint16_t>(from_inputs(graph, node) | (node.varies & varies::numbers)) : uint16_t{0};
  }
}

bool anything_varies(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const IrNode& node) { return (node.varies & ~varies::unknown) != 0; });
}

bool group_varies(const ScheduledGraph& scheduled, const Group& group) {
  const std::vector<IrNode>& nodes = scheduled.graph.nodes;
  // Down to what lies in memory: views and constants are part of the kernel that reads through them.
  std::set<int> seen;
  std::vector<int> left;
  const auto look = [&](int id) {
    if (seen.insert(id).second) left.push_back(id);
  };
  for (const Member& member : group.members) look(member.node);
  for (int id : group.inlined) look(id);
  while (!left.empty()) {
    const int id = left.back();
    left.pop_back();
    const IrNode& node = nodes[static_cast<size_t>(id)];
    // A constant is computed from an index: its own extent does not matter.
    if ((node.varies & (node.op->kind == OpKind::constant ? varies::numbers : 0xffff)) != 0) return true;
    const bool stored =
        node.leaf >= 0 || (!group.find(id) && !std::binary_search(group.inlined.begin(), group.inlined.end(), id) &&
                           node.op->kind != OpKind::movement && node.op->kind != OpKind::constant &&
                           !scheduled.free_nodes[static_cast<size_t>(id)]);
    if (stored) continue;
    for (int input : node.inputs) look(input);
  }
  return false;
}

// Words in a file: how many keys have kernels of their own, their hashes, the first key, the positions that varied.
void ShapeFamilies::load(Family& family) {
  if (!across_runs::on()) return;
  const std::optional<std::vector<uint8_t>> kept =
      DiskCache("sizes", across_runs::subject()).load(bytes_of(family.skeleton));
  if (!kept || kept->size() % sizeof(uint64_t) != 0) return;
  std::vector<uint64_t> words(kept->size() / sizeof(uint64_t));
  std::memcpy(words.data(), kept->data(), kept->size());
  const size_t length = family.skeleton.size();
  if (words.empty() || words[0] > specialised || words.size() < 1 + words[0] + length) return;
  const auto key = words.begin() + 1 + static_cast<ptrdiff_t>(words[0]), places = key + static_cast<ptrdiff_t>(length);
  if (std::any_of(places, words.end(), [&](uint64_t at) { return at >= length; })) return;
  family.own.assign(words.begin() + 1, key);
  family.first.assign(key, places);
  for (auto at = places; at != words.end(); ++at) family.varied[*at] = true;
}

void ShapeFamilies::store(const Family& family) {
  if (!across_runs::on()) return;
  std::vector<uint64_t> words{family.own.size()};
  words.insert(words.end(), family.own.begin(), family.own.end());
  words.insert(words.end(), family.first.begin(), family.first.end());
  for (size_t at = 0; at < family.varied.size(); ++at) {
    if (family.varied[at]) words.push_back(at);
  }
  DiskCache("sizes", across_runs::subject())
      .store(bytes_of(family.skeleton), words.data(), words.size() * sizeof(uint64_t));
}

void ShapeFamilies::clear() {
  by_hash_.clear();
  families_.clear();
}

std::vector<uint16_t> ShapeFamilies::note(const Capture& captured, DynamicShapes wanted) {
  if (wanted == DynamicShapes::never) return {};
  std::vector<uint16_t> marks;
  if (wanted == DynamicShapes::always) {
    marks.assign(captured.order.size(), 0);
    for (const KeySize& size : captured.sizes) marks[size.node] |= size.which;
    return marks;
  }
  std::vector<uint64_t> skeleton = captured.key;
  for (const KeySize& size : captured.sizes) skeleton[size.at] = 0;
  const uint64_t hash = hash_words(skeleton);
  auto [begin, end] = by_hash_.equal_range(hash);
  const auto known = std::find_if(begin, end, [&](const auto& entry) { return entry.second->skeleton == skeleton; });
  if (known == end) {
    if (families_.size() >= most_families) {
      const auto last = std::prev(families_.end());
      const auto [first, past] = by_hash_.equal_range(last->hash);
      by_hash_.erase(std::find_if(first, past, [&](const auto& entry) { return entry.second == last; }));
      families_.erase(last);
    }
    families_.push_front({std::move(skeleton), captured.key, std::vector<bool>(captured.key.size(), false), {}, hash});
    by_hash_.emplace(hash, families_.begin());
    load(families_.front());
  } else {
    families_.splice(families_.begin(), families_, known->second);
  }
  Family& family = families_.front();
  const uint64_t sizes = hash_words(captured.key);
  if (std::find(family.own.begin(), family.own.end(), sizes) != family.own.end()) return {};
  bool changed = false;
  for (size_t at = 0; at < captured.key.size(); ++at) {
    if (captured.key[at] != family.first[at] && !family.varied[at]) family.varied[at] = changed = true;
  }
  const bool gets_own = family.own.size() < specialised;
  if (gets_own) family.own.push_back(sizes);
  if (changed || gets_own) store(family);
  if (gets_own) return {};
  marks.assign(captured.order.size(), 0);
  for (const KeySize& size : captured.sizes) marks[size.node] |= family.varied[size.at] ? size.which : 0;
  return marks;
}

}  // namespace heddle
