// RecycledAllocator: memory of objects that a thread makes and drops by the thousand, such as the nodes of a graph.
//
// Purpose: for std::allocate_shared. malloc keeps a handful of blocks of a size at hand for each thread and merges and
// splits the others, which costs a recorded operation a fifth of its time (docs/decisions.md). Here a thread keeps up
// to `most` blocks of what it freed and takes them again. Invariants: a block belongs to whoever holds the object, any
// thread may free it; a thread's blocks go back as it ends. Sanitizers see every block come and go: nothing is kept.
// Errors: std::bad_alloc. Thread safety: any thread.
#pragma once

#include <cstddef>
#include <new>

#include "heddle/core/base/of_this_thread.h"

namespace heddle {
namespace detail {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool recycles = false;
#else
constexpr bool recycles = true;
#endif

// One thread's free blocks of one size. Trivial, so that it can be looked at until the thread is gone.
struct FreeBlocks {
  struct Block {
    Block* next;
  };
  Block* first = nullptr;
  size_t count = 0;
  bool open = false;  // their end is taken care of

  void* take() {
    Block* const block = first;
    first = block->next;
    --count;
    return block;
  }
  void put(void* memory) {
    first = new (memory) Block{first};
    ++count;
  }
};

// The list of the thread for objects of T; given back as the thread ends.
template <class T>
struct Recycled {
  static inline constinit thread_local FreeBlocks free{};

  Recycled() { free.open = true; }
  ~Recycled() {
    free.open = false;
    while (free.count > 0) ::operator delete(free.take());
  }
};

}  // namespace detail

template <class T>
class RecycledAllocator {
 public:
  using value_type = T;
  static constexpr size_t most = 4096;

  RecycledAllocator() = default;
  template <class U>
  RecycledAllocator(const RecycledAllocator<U>&) {}

  T* allocate(size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ && sizeof(T) >= sizeof(void*));
    if (!detail::recycles || count != 1) return static_cast<T*>(::operator new(count * sizeof(T)));
    detail::FreeBlocks& free = detail::Recycled<T>::free;
    if (free.count > 0) return static_cast<T*>(free.take());
    if (!free.open) of_this_thread<detail::Recycled<T>>();
    return static_cast<T*>(::operator new(sizeof(T)));
  }
  void deallocate(T* memory, size_t count) noexcept {
    detail::FreeBlocks& free = detail::Recycled<T>::free;
    if (count == 1 && free.open && free.count < most)
      free.put(memory);
    else
      ::operator delete(memory);
  }

  template <class U>
  bool operator==(const RecycledAllocator<U>&) const {
    return true;
  }
};

}  // namespace heddle
