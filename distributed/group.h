// Group: ranks of a world that make calls together.
//
// Purpose: collectives on values in the host's memory. Invariants: all ranks of a group make the same calls in the same
// order; operation, dtype, shape, reduction and root are compared, and ranks that differ are named in a MismatchError.
// Results are the same bits each time (schedules.h). A root is a place in the group. No call waits: its ticket does.
// Values lie dense and aligned to their elements. Errors: ValueError for a root or a peer that is no place of the
// group, DTypeError where a type has no sum; later ones from Ticket::wait(). Thread safety: a value that may be copied;
// the calls of a group come from one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/caller.h"
#include "heddle/core/base/dtype.h"
#include "heddle/core/base/shape.h"
#include "heddle/distributed/reduce.h"
#include "heddle/distributed/ticket.h"

namespace heddle::distributed {

class CommunicationThread;
struct Call;

class Group {
 public:
  int rank() const;  // this process's place
  int size() const;
  const std::vector<int>& ranks() const;  // of the world, by place
  const std::string& name() const;

  // Every rank has values of that shape and gets, in their place, what they are reduced to.
  Ticket all_reduce(void* values, DType dtype, const Shape& shape, Reduction reduction = Reduction::sum,
                    const Caller& caller = Caller::current());
  // Every rank has values of that shape and gets those of all, (size, shape...), by place.
  Ticket all_gather(const void* mine, void* all, DType dtype, const Shape& shape,
                    const Caller& caller = Caller::current());
  // Every rank has (size, shape...) and gets values of that shape: its part, reduced over the ranks.
  Ticket reduce_scatter(const void* all, void* mine, DType dtype, const Shape& shape,
                        Reduction reduction = Reduction::sum, const Caller& caller = Caller::current());
  // The same over parts of any sizes, by place, that lie one behind the other: in `values` every rank has all parts and
  // gets its own, reduced, in its place, those of the others stay; and has its own and gets all. ValueError for other
  // sizes than one of at least 0 for each place.
  Ticket reduce_scatter(void* values, DType dtype, const std::vector<int64_t>& sizes,
                        Reduction reduction = Reduction::sum, const Caller& caller = Caller::current());
  Ticket all_gather(void* values, DType dtype, const std::vector<int64_t>& sizes,
                    const Caller& caller = Caller::current());
  // Every rank has (size, shape...), a part for each place, and gets as much: a part from each place.
  Ticket all_to_all(const void* to, void* from, DType dtype, const Shape& shape,
                    const Caller& caller = Caller::current());
  // Every rank gets the root's values in the place of its own.
  Ticket broadcast(void* values, DType dtype, const Shape& shape, int root, const Caller& caller = Caller::current());
  // Two ranks alone; the messages of a pair are numbered for themselves.
  Ticket send(const void* values, DType dtype, const Shape& shape, int to, const Caller& caller = Caller::current());
  Ticket receive(void* values, DType dtype, const Shape& shape, int from, const Caller& caller = Caller::current());
  // Done when every rank has called it.
  Ticket barrier(const Caller& caller = Caller::current());

 private:
  friend class World;
  struct State;
  explicit Group(std::shared_ptr<State> state);
  void check_place(int place, const char* operation) const;
  Call with_sizes(Call call, const std::vector<int64_t>& sizes) const;

  std::shared_ptr<State> state_;
};

}  // namespace heddle::distributed
