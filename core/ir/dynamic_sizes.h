// Varying sizes: which dimensions of a graph have been seen with several values, and what that means for its kernels.
//
// Purpose: sizes are numbers of the launch, but schedules, facts (a length that whole vectors cover) and numbers that
// happen to be equal make other text of another size. A graph whose structure was evaluated with two sets of sizes
// gets, from the third on, kernels that do not depend on those that differed: schedules are picked for a nominal size,
// edges are guarded, every number has a name of its own. What does not vary stays as it was. So batch and sequence
// length may vary without compilation from the fourth set on.
// Across runs (core/base/across_runs.h) families are kept in the user's cache folder, so that processes count as one.
// Invariants: the marks only choose kernels; results are right whatever they say. They follow from structure and
// position, never from a value. Thread safety: ShapeFamilies is used under the device's lock; the rest are pure
// functions.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>
#include <vector>

#include "heddle/core/ir/dynamic_shapes.h"
#include "heddle/core/ir/ir.h"

namespace heddle {

struct Group;
struct ScheduledGraph;

// Stands for a size that varies when a schedule is picked: some rows of work, a multiple of nothing.
constexpr int64_t nominal_size = 509;
constexpr int64_t nominal_batch = 31;

inline bool dimension_varies(const IrNode& node, int d) { return (node.varies >> d & 1) != 0; }
inline int64_t nominal(const IrNode& node, int d) { return dimension_varies(node, d) ? nominal_size : node.shape[d]; }

bool anything_varies(const Graph& graph);
// What is unknown of vertices from `from` on follows from their inputs; nothing where `any`thing varies is false.
void settle_sizes(Graph& graph, bool any, size_t from = 0);
// Whether a kernel of the group must not depend on sizes.
bool group_varies(const ScheduledGraph& scheduled, const Group& group);

// The sets of sizes with which each structure was planned on a device.
class ShapeFamilies {
 public:
  // Takes note of a capture that is about to be planned. Answers what varies of each node of its order, or nothing:
  // then all sizes may be relied on.
  std::vector<uint16_t> note(const Capture& captured, DynamicShapes mode);
  void clear();
  size_t size() const { return families_.size(); }

 private:
  struct Family {
    std::vector<uint64_t> skeleton;  // the key with its sizes left out
    std::vector<uint64_t> first;     // a key of it
    std::vector<bool> varied;        // by position in the key
    std::vector<uint64_t> own;       // hashes of the keys that have kernels of their own
    uint64_t hash = 0;
  };
  static constexpr size_t most_families = 512;
  static constexpr size_t specialised = 2;  // sets of sizes that get kernels of their own

  // What an earlier process kept of it; only across_runs::on().
  static void load(Family& family);
  static void store(const Family& family);

  std::list<Family> families_;  // latest first
  std::unordered_multimap<uint64_t, std::list<Family>::iterator> by_hash_;
};

}  // namespace heddle
