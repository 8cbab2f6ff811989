#include "heddle/core/simplify/join_parts.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <tuple>

#include "heddle/core/base/hash.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/make_vertices.h"

namespace heddle {
namespace {

constexpr int64_t small_bytes = 4 << 20;  // of joined values, whatever the graph reads
constexpr int64_t most_share = 16;        // of what the graph reads: one part of so many

// The only axis in which the shapes differ.
int sliced_axis(const Shape& whole, const Shape& part) {
  int axis = -1;
  for (int d = 0; d < whole.rank(); ++d) {
    if (whole[d] == part[d]) continue;
    if (axis >= 0) return -1;
    axis = d;
  }
  return axis;
}

// Slices of one value that follow each other along one axis and make it up.
bool is_sliced(const Graph& graph, const std::vector<int>& members) {
  const auto at = [&](int id) -> const IrNode& { return graph.nodes[static_cast<size_t>(id)]; };
  const IrNode& first = at(members[0]);
  if (first.op != &ops::slice_op) return false;
  const Shape& from = at(first.inputs[0]).shape;
  const int64_t parts = static_cast<int64_t>(members.size());
  const int axis = sliced_axis(from, first.shape);
  if (axis < 0 || from[axis] != parts * first.shape[axis]) return false;
  for (size_t i = 0; i < members.size(); ++i) {
    const IrNode& slice = at(members[i]);
    if (slice.inputs != first.inputs) return false;
    for (int d = 0; d < from.rank(); ++d) {
      const SliceAttrs range(slice.attrs);
      if (range.start[static_cast<size_t>(d)] != (d == axis ? static_cast<int64_t>(i) * first.shape[axis] : 0) ||
          range.step[static_cast<size_t>(d)] != 1)
        return false;
    }
  }
  return true;
}
// Leaves of one storage at equal distances.
bool lie_evenly(const Graph& graph, const std::vector<int>& members) {
  const auto at = [&](int id) -> const IrNode& { return graph.nodes[static_cast<size_t>(id)]; };
  const auto leaf = [&](size_t i) -> const LeafInfo& { return graph.leaves[static_cast<size_t>(at(members[i]).leaf)]; };
  for (size_t i = 0; i < members.size(); ++i) {
    if (at(members[i]).leaf < 0) return false;
    const LeafInfo &a = leaf(0), &b = leaf(i);
    if (b.slot < 0 || b.slot != a.slot || b.view.shape != a.view.shape || b.view.strides != a.view.strides ||
        at(members[i]).varies != at(members[0]).varies)
      return false;
    if (b.view.offset - a.view.offset != static_cast<int64_t>(i) * (leaf(1).view.offset - a.view.offset)) return false;
  }
  return leaf(1).view.offset > leaf(0).view.offset;
}

class PartJoiner {
 public:
  explicit PartJoiner(const Graph& in) : in_(in), out_(in.over_same_leaves()), lifter_(in_, out_, families_, to_) {}

  std::optional<Graph> run() {
    look();
    find_sums();
    if (sums_.empty()) return std::nullopt;
    for (size_t f = 0; f < families_.size(); ++f) compare(f);
    if (!rebuild() || !pays()) return std::nullopt;
    return std::move(out_);
  }

 private:
  struct Sum {
    std::vector<int> families, rest;  // terms
  };

  const IrNode& at(int id) const { return in_.nodes[static_cast<size_t>(id)]; }
  int64_t bytes(const IrNode& node) const { return node.shape.numel() * static_cast<int64_t>(size_of(node.dtype)); }

  // ---- of each vertex: who reads it, how deep it lies, and a hash of what it computes, of whatever leaves
  void look() {
    const size_t count = in_.nodes.size();
    readers_.assign(count, 0);
    depth_.assign(count, 0);
    hash_.assign(count, 0);
    only_reader_.assign(count, -1);
    for (size_t id = 0; id < count; ++id) {
      const IrNode& node = in_.nodes[id];
      std::vector<uint64_t> words{reinterpret_cast<uint64_t>(node.op), static_cast<uint64_t>(node.dtype),
                                  std::bit_cast<uint64_t>(node.attrs.real), std::bit_cast<uint64_t>(node.attrs.real2)};
      words.insert(words.end(), node.shape.begin(), node.shape.end());
      // Slices of parts differ in where they begin.
      if (node.op != &ops::slice_op) words.insert(words.end(), node.attrs.ints.begin(), node.attrs.ints.end());
      for (const int input : node.inputs) {
        const auto i = static_cast<size_t>(input);
        words.push_back(hash_[i]);
        depth_[id] = std::max(depth_[id], depth_[i] + 1);
        ++readers_[i];
        only_reader_[i] = static_cast<int>(id);
      }
      hash_[id] = hash_words(words);
    }
    for (const IrOutput& output : in_.outputs) readers_[static_cast<size_t>(output.node)] += 2;
  }

  // ---- sums of several terms
  bool adds(int id) const { return at(id).op == &ops::add_op && is_float(at(id).dtype); }
  bool is_inner(int id) const {
    return adds(id) && readers_[static_cast<size_t>(id)] == 1 && adds(only_reader_[static_cast<size_t>(id)]);
  }

  // From left to right.
  std::vector<int> terms_of(int root) const {
    std::vector<int> terms, left{root};
    while (!left.empty()) {
      const int id = left.back();
      left.pop_back();
      if (id != root && !is_inner(id))
        terms.push_back(id);
      else
        left.insert(left.end(), at(id).inputs.rbegin(), at(id).inputs.rend());
    }
    return terms;
  }

  void find_sums() {
    for (int root = 0; root < static_cast<int>(in_.nodes.size()); ++root) {
      if (!adds(root) || is_inner(root)) continue;
      std::vector<std::pair<uint64_t, std::vector<int>>> alike;  // in the order of their first terms
      for (const int term : terms_of(root)) {
        const uint64_t hash = hash_[static_cast<size_t>(term)];
        auto entry = std::find_if(alike.begin(), alike.end(), [&](const auto& e) { return e.first == hash; });
        if (entry == alike.end()) entry = alike.insert(alike.end(), {hash, {}});
        entry->second.push_back(term);
      }
      Sum sum;
      for (const auto& [hash, terms] : alike) {
        if (terms.size() > 1 && std::set<int>(terms.begin(), terms.end()).size() == terms.size())
          sum.families.push_back(family_of(terms));
        else
          sum.rest.insert(sum.rest.end(), terms.begin(), terms.end());
      }
      if (!sum.families.empty()) sums_.emplace(root, std::move(sum));
    }
  }

  // ---- families, from the terms of sums down
  int family_of(const std::vector<int>& members) {
    const auto [entry, fresh] = by_members_.try_emplace(members, static_cast<int>(families_.size()));
    if (fresh) {
      families_.push_back({.members = members});
      families_.back().depth = depth_[static_cast<size_t>(members[0])];
    }
    return entry->second;
  }

  void compare(size_t f) {
    const std::vector<int> members = families_[f].members;
    const IrNode& first = at(members[0]);
    const auto all = [&](const auto& holds) {
      return std::all_of(members.begin(), members.end(), [&](int id) { return holds(at(id)); });
    };
    const auto same = [&](const IrNode& n) {
      return n.op == first.op && n.shape == first.shape && n.dtype == first.dtype && n.keep == Keep::plain &&
             n.inputs.size() == first.inputs.size() && !n.loop;
    };
    if (!all(same) || first.shape.rank() == Shape::max_rank) return;
    Family family = families_[f];
    if (first.leaf >= 0 || is_sliced(in_, members)) {
      family.kind = is_sliced(in_, members) || lie_evenly(in_, members) ? Family::Kind::lying : Family::Kind::none;
    } else if (all([&](const IrNode& n) { return n.attrs == first.attrs; })) {
      family.kind = first.op->kind == OpKind::random ? Family::Kind::drawn : Family::Kind::lifted;
      for (size_t n = 0; n < first.inputs.size() && family.kind == Family::Kind::lifted; ++n)
        family.operands.push_back(operand_of(members, n));
    }
    families_[f] = std::move(family);
  }

  Family::Operand operand_of(const std::vector<int>& members, size_t n) {
    std::vector<int> inputs;
    for (const int id : members) inputs.push_back(at(id).inputs[n]);
    if (std::all_of(inputs.begin(), inputs.end(), [&](int id) { return id == inputs[0]; }))
      return {.shared = inputs[0]};
    return {.family = family_of(inputs)};
  }

  // ---- the new graph, by depth: what is joined lies as deep as its members, and before them
  bool rebuild() {
    std::vector<std::tuple<int, bool, int>> order;
    for (size_t f = 0; f < families_.size(); ++f) order.emplace_back(families_[f].depth, false, static_cast<int>(f));
    for (size_t id = 0; id < in_.nodes.size(); ++id) order.emplace_back(depth_[id], true, static_cast<int>(id));
    std::sort(order.begin(), order.end());
    to_.assign(in_.nodes.size(), -1);
    bool any = false;
    for (const auto& [depth, is_vertex, index] : order) {
      if (!is_vertex)
        join(families_[static_cast<size_t>(index)]);
      else
        any = place(index) || any;
    }
    for (const IrOutput& output : in_.outputs)
      out_.outputs.push_back({to_[static_cast<size_t>(output.node)], output.assign_slot});
    return any;
  }

  void join(Family& family) {
    family.begin = out_.nodes.size();
    family.joined = lifter_.join(family);
    family.end = out_.nodes.size();
    const IrNode& first = at(family.members[0]);
    family.product = first.op->kind == OpKind::contraction || first.op->kind == OpKind::body;
    for (const Family::Operand& operand : family.operands)
      family.product =
          family.product || (operand.family >= 0 && families_[static_cast<size_t>(operand.family)].product);
    for (size_t made = family.begin; made < family.end; ++made) out_.nodes[made].origin = first.origin;
    if (family.joined < 0) return;
    if (family.kind == Family::Kind::lying) return;  // members are views as they are
    for (size_t part = 0; part < family.members.size(); ++part)
      member_of_.try_emplace(family.members[part], &family, part);
  }

  // Whether the vertex was a sum over parts.
  bool place(int id) {
    const size_t before = out_.nodes.size();
    int& made = to_[static_cast<size_t>(id)];
    const auto sum = sums_.find(id);
    bool joined = false;
    if (sum != sums_.end()) made = total(sum->second);
    if (made >= 0) {
      joined = true;
    } else if (const auto member = member_of_.find(id); member != member_of_.end()) {
      made = lifter_.member(*member->second.first, member->second.second);
    } else {
      IrNode node = at(id);
      for (int& input : node.inputs) input = to_[static_cast<size_t>(input)];
      made = out_.add(std::move(node));
      return false;
    }
    for (size_t n = before; n < out_.nodes.size(); ++n) out_.nodes[n].origin = at(id).origin;
    return joined;
  }

  // -1 when none of its families is joined.
  int total(const Sum& sum) {
    int made = -1;
    std::vector<int> rest = sum.rest;
    const auto add = [&](int term) { made = made < 0 ? term : rewrite::binary(out_, ops::add_op, made, term); };
    for (const int f : sum.families) {
      const Family& family = families_[static_cast<size_t>(f)];
      const int summed = family.product ? lifter_.sum(family) : -1;
      if (summed >= 0)
        add(summed);
      else
        rest.insert(rest.end(), family.members.begin(), family.members.end());
    }
    if (made < 0) return -1;
    for (const int term : rest) add(to_[static_cast<size_t>(term)]);
    return made;
  }

  // ---- memory: elementwise work mostly becomes part of the kernels around it
  bool pays() const {
    std::vector<bool> live(out_.nodes.size(), false);
    for (const IrOutput& output : out_.outputs) live[static_cast<size_t>(output.node)] = true;
    for (size_t id = out_.nodes.size(); id-- > 0;) {
      for (const int input : out_.nodes[id].inputs)
        live[static_cast<size_t>(input)] = live[static_cast<size_t>(input)] || live[id];
    }
    int64_t stored = 0, read = 0;
    for (const Family& family : families_) {
      for (size_t id = family.begin; id < family.end; ++id) {
        const OpKind kind = out_.nodes[id].op->kind;
        const bool fuses = kind == OpKind::elementwise || kind == OpKind::constant || kind == OpKind::leaf ||
                           (kind == OpKind::movement && out_.nodes[id].op != &ops::concat_op);
        if (live[id] && !fuses) stored += bytes(out_.nodes[id]);
      }
    }
    for (const IrNode& node : in_.nodes) read += node.leaf >= 0 ? bytes(node) : 0;
    return stored <= std::max(small_bytes, read / most_share);
  }

  const Graph& in_;
  Graph out_;
  std::vector<Family> families_;
  std::vector<int> to_;
  FamilyLifter lifter_;
  std::vector<int> readers_, depth_, only_reader_;
  std::vector<uint64_t> hash_;
  std::map<int, Sum> sums_;  // by root
  std::map<std::vector<int>, int> by_members_;
  std::map<int, std::pair<const Family*, size_t>> member_of_;
};

}  // namespace

std::optional<Graph> join_parts(const Graph& graph) { return PartJoiner(graph).run(); }

}  // namespace heddle
