// Objects of which each thread has its own.
//
// Purpose: what a thread_local with a destructor is for. glibc ends the process ("Fatal glibc error: failed to register
// TLS destructor") where it has no memory left to note such a destructor; of_this_thread() throws std::bad_alloc.
// Invariants: a thread's objects are destroyed as it ends, the newest first; those of the main thread before the
// statics of the process. Thread safety: any thread; the object is the caller's own.
#pragma once

namespace heddle {
namespace detail {

struct OfThread {
  virtual ~OfThread() = default;
  OfThread* before = nullptr;  // made before this one
};
// From now on the end of the calling thread is noticed. Errors: std::bad_alloc.
void notice_thread_end();
void destroy_at_thread_end(OfThread* object) noexcept;

}  // namespace detail

// The thread's T, made at its first use; nothing is left of one that could not be made. A T is in use at one place
// alone: give it a type of its own.
template <class T>
T& of_this_thread() {
  thread_local T* own = nullptr;
  if (own == nullptr) {
    struct Owned final : detail::OfThread {
      ~Owned() override { own = nullptr; }
      T value;
    };
    detail::notice_thread_end();
    auto* made = new Owned();
    detail::destroy_at_thread_end(made);
    own = &made->value;
  }
  return *own;
}

}  // namespace heddle
