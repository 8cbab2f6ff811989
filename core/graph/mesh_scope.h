// MeshScope: the axes of a mesh along which ranks run this thread's program, and the collectives that it has recorded.
//
// Purpose: every rank runs the same function on its part of the data (shard_map, distributed/shard_map.h). A value is
// invariant along an axis, the same on all ranks that differ along it alone, or varies along it: Node::varying has a
// bit for each axis. Where an operation mixes both, what is invariant passes a pvary, whose gradient is a psum: so
// gradients of what all ranks share are sums over the ranks, and nobody says so. Collectives are made in the order in
// which they were recorded, each once, whether or not anybody looks at its result: that order is the same on all ranks.
// Invariants: a thread has one scope at a time; bits of Node::varying mean the axes of that scope. Errors: AxisError,
// ValueError. Thread safety: a scope belongs to its thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/graph/node_ptr.h"
#include "heddle/core/op/op.h"

namespace heddle {

// An axis as one rank sees it.
struct ScopeAxis {
  std::string name;
  int64_t size = 1;
  int64_t place = 0;  // this rank's, below size
};

// Who carries collectives between the ranks (distributed/mesh_links.h).
class AxisLinks {
 public:
  virtual ~AxisLinks() = default;
  // In the order of the mesh: the last axis has neighbouring ranks.
  virtual const std::vector<ScopeAxis>& axes() const = 0;
  // One collective, whose operand lies dense as stored; the node's value goes to `result`, likewise, which does not
  // overlap it. Waits for the other ranks. After an exception `result` has anything.
  virtual void call(const Node& collective, std::span<const uint8_t> operand, std::span<uint8_t> result) = 0;
};

class MeshScope {
 public:
  // ValueError inside of another scope of this thread, and for more than 31 axes.
  explicit MeshScope(AxisLinks& links);
  // Forgets what was recorded and not made: such values cannot be looked at.
  ~MeshScope();
  MeshScope(const MeshScope&) = delete;
  MeshScope& operator=(const MeshScope&) = delete;
  // This thread's; null outside of any.
  static MeshScope* current();
  // The same; AxisError that names `who` outside of any.
  static MeshScope& required(std::string_view who);

  // Makes the collectives that were recorded and not made yet.
  void finish();

  const std::vector<ScopeAxis>& axes() const { return links_.axes(); }
  AxisLinks& links() { return links_; }
  // AxisError that names `who`: there is no axis of that name, one stands twice, there are none.
  AxisMask mask(std::span<const std::string> names, std::string_view who) const;
  // "'tp'", "'dp' and 'tp'".
  std::string names(AxisMask axes) const;
  // How many ranks a group along these axes has, and which of them this one is: row-major in the order of the mesh.
  int64_t size(AxisMask axes) const;
  int64_t place(AxisMask axes) const;

  // ---- for note_pending() and make_collectives()
  void note(const NodePtr& collective);
  std::vector<NodePtr> take_recorded();
  // Collectives that were recorded so far.
  uint64_t recorded() const { return count_; }

 private:
  AxisLinks& links_;
  std::vector<NodePtr> recorded_;
  uint64_t count_ = 0;
};

}  // namespace heddle
