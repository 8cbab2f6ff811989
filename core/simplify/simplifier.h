// The rewriting engine of the graph passes.
//
// Purpose: one walk rebuilds the graph bottom-up: each vertex is made again from its rewritten inputs, the rules of its
// kind are tried, and equal vertices become one (hash consing). Rules feed each other within the walk, so no pass runs
// twice. Each rule belongs to a pass and is only tried when that pass is on. Invariants: the result has the same leaves
// and outputs; values are the same up to rounding of folded constants. Thread safety: none; one object, one graph.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "heddle/core/ir/ir.h"
#include "heddle/core/simplify/passes.h"

namespace heddle {

class Simplifier {
 public:
  Simplifier(const Graph& in, PassSet passes);
  Graph run();

  // For rules. A rule looks at a vertex whose inputs are already vertices of the new graph, and answers with the vertex
  // that takes its place; or changes it and calls make(), which tries all rules again.
  const IrNode& at(int id) const { return out_.nodes[static_cast<size_t>(id)]; }
  bool is_full(int id) const;
  // The constant that `id` is everywhere.
  std::optional<double> constant(int id) const;
  int users_of(int id) const;  // of what has become `id`, in the old graph
  int make(IrNode node);
  int make_full(const Shape& shape, DType dtype, double value);

 private:
  void mark_live();
  int readers_gone(int vertex, const std::vector<int>& to) const;
  std::optional<int> rewrite(IrNode& node);
  const IrNode& behind_views(int id) const;
  bool divides_by_zero(const IrNode& node) const;

  const Graph& in_;
  PassSet passes_;
  Graph out_;
  std::vector<bool> live_;
  std::vector<int> users_;       // of the vertices of in_
  std::map<int, int> users_of_;  // of the vertices of out_
  std::map<std::vector<uint64_t>, int> known_;
  Keep keep_ = Keep::plain;  // of the vertex being rebuilt
  int origin_ = -1;
};

struct Rule {
  Pass pass;
  std::optional<int> (*apply)(Simplifier& graph, IrNode& node);
};
// The rules for vertices of one kind, in the order in which they are tried.
std::span<const Rule> elementwise_rules();  // rules_elementwise.cpp
std::span<const Rule> movement_rules();     // rules_movement.cpp
std::span<const Rule> reduce_rules();       // rules_products.cpp
std::span<const Rule> product_rules();
std::optional<int> transpose_product(Simplifier& graph, IrNode& node);

bool swaps_last_two(const IrNode& permute);

// Algebraic identities, constant folding, movement composition, common subexpressions, dead nodes. Keeps values: same
// results up to rounding of folded constants. Returns a new graph with the same outputs.
Graph simplify(const Graph& graph);
// The same with these passes; without the pass `dead` it keeps what nobody reads.
Graph simplify(const Graph& graph, PassSet passes);
Graph drop_dead(Graph graph);

}  // namespace heddle
