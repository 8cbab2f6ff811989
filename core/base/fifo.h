// Fifo: a queue that keeps its memory, so that what comes and goes all the time takes none from the heap.
//
// A std::deque gives blocks back and takes new ones every few elements. Invariants: elements are in the order in which
// they came; what was popped is destroyed or left empty at once. Thread safety: as a plain value.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace heddle {

template <class T>
class Fifo {
 public:
  Fifo() { items_.reserve(64); }
  bool empty() const { return first_ == items_.size(); }
  size_t size() const { return items_.size() - first_; }
  T& front() { return items_[first_]; }
  const T& front() const { return items_[first_]; }
  T& back() { return items_.back(); }
  const T& operator[](size_t i) const { return items_[first_ + i]; }
  auto begin() { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
  auto end() { return items_.end(); }
  auto begin() const { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
  auto end() const { return items_.end(); }
  void push_back(T item) {
    if (items_.size() == items_.capacity()) close_up();
    items_.push_back(std::move(item));
  }
  void pop_front() {
    items_[first_++] = T();
    if (empty()) clear();
  }
  void clear() {
    items_.clear();
    first_ = 0;
  }

 private:
  // The room in front is used before more is taken.
  void close_up() {
    items_.erase(items_.begin(), begin());
    first_ = 0;
  }

  std::vector<T> items_;
  size_t first_ = 0;
};

}  // namespace heddle
