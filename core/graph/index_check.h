// The check of indices: names the call, the index and its position instead of clamping.
//
//   set_index_guard(true);                 // every thread; or HEDDLE_CHECK_INDICES=1
//   { const IndexGuardScope guard; ... }   // this thread
//
// A device cannot throw, so functions that take indices or class numbers clamp or leave out what is out of range (core/graph/functions.h says which). With the
// guard on, each such call also looks for its first index out of range, on the device, and the next observation of any tensor on this thread throws an IndexError:
//   [gather] index 12 is out of range for dimension 1 of size 10, at position (3, 0) (model.cpp:17)
// Under vmap and in loops every example and iteration is looked at, in the branches of cond() the one that is taken; compiled functions are recorded at every
// call. Gradients use the indices of what they belong to and are not looked at again.
// Invariants: values are those without the guard; the step that holds the fault is complete when the error is thrown, parameters that it wrote included.
// Cost: off, one look at a flag per call; on, two small launches per call and one read per call and observation.
// Thread safety: the flag of all threads may be changed by any; a scope belongs to its thread.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/graph/tensor.h"

namespace heddle {

// An index that names no element.
class IndexError : public ValueError {
 public:
  IndexError(const std::string& message, int64_t index, int64_t size, std::vector<int64_t> position) : ValueError(message), index_(index), size_(size), position_(std::move(position)) {}
  int64_t index() const { return index_; }
  int64_t size() const { return size_; }  // of the dimension
  const std::vector<int64_t>& position() const { return position_; }  // in the tensor of indices

 private:
  int64_t index_, size_;
  std::vector<int64_t> position_;
};

// Whether this thread's indices are checked.
bool index_guard();
void set_index_guard(bool on);

class IndexGuardScope {
 public:
  explicit IndexGuardScope(bool on = true);
  ~IndexGuardScope();
  IndexGuardScope(const IndexGuardScope&) = delete;
  IndexGuardScope& operator=(const IndexGuardScope&) = delete;

 private:
  signed char before_;
};

namespace build {

struct IndexRule {
  int axis = 0;              // the dimension that is indexed
  int64_t size = 0;          // of it
  bool from_end = false;     // negative ones count from the end
  const char* noun = "index";
  Tensor used = {};          // bool, broadcasts to the indices: only these count
};
// For the public function named `op`, with the indices as its caller gave them. Does nothing while the guard is off, and inside other functions of the library
// and while a derivative rule, vmap or a decomposition records.
void watch_indices(const char* op, const Tensor& indices, const IndexRule& rule);

}  // namespace build
}  // namespace heddle
