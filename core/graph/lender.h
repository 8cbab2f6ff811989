// Lender: who gives leaves their values for as long as something is computed from them.
//
// Purpose: a parameter may be too much for one device to hold all the time: its elements lie in parts with several
// ranks, and are put together for the segment of a step that reads them. Such a leaf has a shape and no value. An
// evaluation within a LenderScope that reads one is cut where other groups of leaves are needed
// (core/run/lent_segments.h): a group is lent before the part of the graph that reads it, and taken back after.
// Invariants: leaves of one group come and go together; while a segment is enqueued the next one's group is on its
// way, and no other than these two is asked for unless one operation reads more. What is computed within follows from
// the graph alone, so that ranks which record the same ask in the same order. Errors: ValueError where such a leaf is
// read outside of a scope (core/record/capture.cpp); those of the lender. Thread safety: a scope belongs to its thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/shape.h"
#include "heddle/core/graph/node_ptr.h"

namespace heddle {

class DeviceContext;

class Lender {
 public:
  virtual ~Lender() = default;
  // What a group takes.
  virtual uint64_t bytes_of(size_t group) const = 0;
  // Whether a group that was lent stays until its last reader, instead of being brought again for a later one.
  virtual bool keeps() const = 0;
  // Begins to bring a group's values and does not wait. Of one that is on its way, or lent: nothing.
  virtual void fetch(size_t group) = 0;
  // The group's leaves have values then.
  virtual void lend(size_t group) = 0;
  // Nobody reads them for now: they have none again, unless the lender leaves them.
  virtual void take_back(size_t group) = 0;
};

// A leaf without a value, of such a group.
NodePtr make_lent_leaf(DeviceContext& device, const Shape& shape, DType dtype, size_t group);
bool is_lent(const Node& node);
size_t group_of(const Node& lent);

// While alive, this thread's evaluations borrow from the lender; null: as before.
class LenderScope {
 public:
  explicit LenderScope(Lender* lender);
  ~LenderScope();
  LenderScope(const LenderScope&) = delete;
  LenderScope& operator=(const LenderScope&) = delete;
  // This thread's; null outside of any.
  static Lender* current();

 private:
  Lender* outer_;
};

}  // namespace heddle
