// Owned: the only owner of an object whose class the reader of a public header does not see: std::unique_ptr's part in
// "private state in the .cpp", at a small share of what one member of that type costs to compile.
//
// Invariants: neither copied nor moved; the object goes with its owner. The class is complete where an Owned is made,
// given another object, or destroyed. Thread safety: that of a pointer.
#pragma once

namespace heddle {

template <class T>
class Owned {
 public:
  Owned() = default;
  // From a std::unique_ptr that is given away.
  template <class Pointer>
  explicit Owned(Pointer&& made) : held_(made.release()) {}
  template <class Pointer>
  Owned& operator=(Pointer&& made) {
    T* const before = held_;
    held_ = made.release();
    delete before;
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    static_assert(sizeof(T) > 0, "complete where its owner is destroyed");
    delete held_;
  }

  void reset() {
    delete held_;
    held_ = nullptr;
  }
  explicit operator bool() const { return held_ != nullptr; }
  T* operator->() const { return held_; }
  T& operator*() const { return *held_; }

 private:
  T* held_ = nullptr;
};

}  // namespace heddle
