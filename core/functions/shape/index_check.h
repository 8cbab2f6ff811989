// The check of indices: names the call, the index and its position instead of clamping.
//
// A device cannot throw, so functions that take indices or class numbers clamp or leave out what is out of range
// (docs/numbers.md says which). Unless HEDDLE_CHECK_INDICES=0, or set_index_guard(IndexGuard::off), says that this is
// meant, the guard looks at them:
//   [gather] index 12 is out of range for dimension 1 of size 10, at position (3, 0) (model.cpp:17)
// automatic (the default): indices that were uploaded (from_vector, from_batch: labels, tokens) are compared on the
// host, where the call stands, and at each replay of a compiled function whose arguments
//   they are; they cost the device nothing, and the call throws. Those that a device computed are looked at by it on
//   CPU drivers and the reference device, outside of compiled functions.
// on (HEDDLE_CHECK_INDICES=1): all of them on every device, at every call; compiled functions are recorded at each.
// What a device looks at costs two small launches and, at the next observation of any tensor on this thread, which
// throws the IndexError, one read. Under vmap and in loops every example and iteration is looked at, in the branches of
// cond() the one that is taken. Gradients use the indices of what they belong to and are not looked at again.
// Invariants: values are those without the guard; where a device found the fault, its step is complete when the error
// is thrown, parameters that it wrote included. Thread safety: the setting of all threads may be changed by any; a
// scope belongs to its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// An index that names no element.
class IndexError : public ValueError {
 public:
  IndexError(const std::string& message, int64_t index, int64_t size, std::vector<int64_t> position)
      : ValueError(message), index_(index), size_(size), position_(std::move(position)) {}
  int64_t index() const { return index_; }
  int64_t size() const { return size_; }                              // of the dimension
  const std::vector<int64_t>& position() const { return position_; }  // in the tensor of indices

 private:
  int64_t index_, size_;
  std::vector<int64_t> position_;
};

enum class IndexGuard : uint8_t { off, automatic, on };

// This thread's.
IndexGuard index_guard_mode();
inline bool index_guard() { return index_guard_mode() == IndexGuard::on; }
void set_index_guard(IndexGuard mode);
inline void set_index_guard(bool on) { set_index_guard(on ? IndexGuard::on : IndexGuard::off); }

class IndexGuardScope {
 public:
  explicit IndexGuardScope(IndexGuard mode);
  explicit IndexGuardScope(bool on = true) : IndexGuardScope(on ? IndexGuard::on : IndexGuard::off) {}
  ~IndexGuardScope();
  IndexGuardScope(const IndexGuardScope&) = delete;
  IndexGuardScope& operator=(const IndexGuardScope&) = delete;

 private:
  signed char before_;
};

namespace build {

struct IndexRule {
  int axis = 0;           // the dimension that is indexed
  int64_t size = 0;       // of it
  bool from_end = false;  // negative ones count from the end
  const char* noun = "index";
  Tensor used = {};                     // bool, broadcasts to the indices: only these count
  std::optional<int64_t> ignored = {};  // what `used` leaves out, where that is one number

  bool allows(int64_t index) const { return (index >= (from_end ? -size : 0) && index < size) || index == ignored; }
};
// For the public function named `op`, with the indices as its caller gave them. Does nothing while the guard is off,
// and inside other functions of the library and while a derivative rule, vmap or a decomposition records.
void watch_indices(const char* op, const Tensor& indices, const IndexRule& rule);

// Uploaded indices that a function used while compile() traced it: its later arguments are held to the same.
struct IndexBound {
  StoragePtr storage;
  int64_t size = 0;
  bool from_end = false;
  std::optional<int64_t> ignored;
};
// What this thread's trace noted since the last call; empty where nothing is checked.
std::vector<IndexBound> take_index_bounds();
// Whether uploaded integers may stand where those of the bound stood; true for what a device computed.
bool fits_bound(const Tensor& argument, const IndexBound& bound);

}  // namespace build
}  // namespace heddle
