// Sums over parts: what is computed of each of several equal parts of a tensor, and then added up, is computed once, of
// all parts together.
//
// Purpose: a gradient that is accumulated over parts of a batch (nn/accumulate.h) is such a sum. Of a small model the
// kernels of one part last a few microseconds; joined, the graph is that of the whole batch: sum_i a_i^T b_i is one
// product, its inner dimension that of all parts. Vertices are joined only where all parts compute the same function of
// slices of one value, or of leaves that lie at equal distances in one storage, so whatever a part keeps for itself
// (the statistics of a batch norm) stays its own. Joined values hold all parts at once, which is what accumulation
// avoids: where they come to more than a sixteenth of what the graph reads, and to more than 4 MiB, the graph stays as
// it is. Invariants: same outputs, up to the order of the sum. Thread safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "heddle/core/ir/ir.h"

namespace heddle {

// The graph with sums over parts joined; nothing when there was none that pays. What it leaves behind is dead:
// simplify() again.
std::optional<Graph> join_parts(const Graph& graph);

// Vertices that are one function of parts: member i of part i.
struct Family {
  // lifted: one vertex for all parts. lying: a view of what all parts lie in. drawn: random numbers, laid side by side.
  enum class Kind : uint8_t { lifted, lying, drawn, none };
  struct Operand {
    int family = -1;  // or one vertex that all members read
    int shared = -1;
  };
  std::vector<int> members;
  std::vector<Operand> operands;
  Kind kind = Kind::none;
  int depth = 0;
  int joined = -1;       // in the new graph; -1: it cannot be
  bool rows = false;     // joined is (parts n, ...) of members (n, ...): the shape that the whole batch would have;
                         // otherwise (parts, n, ...)
  bool product = false;  // there is a product or a body among what it is computed from
  size_t begin = 0, end = 0;  // the vertices that were made for it
};

// Makes the joined values of families, in the order of their depth.
class FamilyLifter {
 public:
  FamilyLifter(const Graph& in, Graph& out, const std::vector<Family>& families, const std::vector<int>& to)
      : in_(in), out_(out), families_(families), to_(to) {}

  // Vertex of `out`, or -1 where there is no rule.
  int join(Family& family);
  // The sum of all members, or -1.
  int sum(const Family& family);
  // One member, as a view of what is joined.
  int member(const Family& family, size_t part);

 private:
  const IrNode& first(const Family& family) const { return in_.nodes[static_cast<size_t>(family.members[0])]; }
  const Shape& shape_of(int made) const { return out_.nodes[static_cast<size_t>(made)].shape; }
  bool is_family(const Family& family, size_t n) const { return family.operands[n].family >= 0; }
  const Family& operand_family(const Family& family, size_t n) const {
    return families_[static_cast<size_t>(family.operands[n].family)];
  }
  int shared(const Family& family, size_t n) const { return to_[static_cast<size_t>(family.operands[n].shared)]; }
  // What is joined, as (parts, n, ...) and as (parts n, ...).
  int parts(const Family& family);
  int rows(const Family& family);
  int beside(const Family& family, size_t n);
  int taller(int id, int64_t count);
  bool reads_joined(const Family& family) const;
  int lying(Family& family);
  int drawn(Family& family);
  int lifted(Family& family);
  int by_rows(const Family& family);
  int by_parts(const Family& family);
  int product(Family& family);
  int convolved(Family& family);
  int sum_of_sums(const Family& family);
  int sum_of_products(const Family& family);

  const Graph& in_;
  Graph& out_;
  const std::vector<Family>& families_;
  const std::vector<int>& to_;
};

}  // namespace heddle
