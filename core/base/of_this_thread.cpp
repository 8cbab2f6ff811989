#include "heddle/core/base/of_this_thread.h"

#include <pthread.h>
#include <unistd.h>

#include <memory>
#include <new>

namespace heddle {
namespace {

thread_local detail::OfThread* newest = nullptr;

void destroy_all() noexcept {
  while (newest != nullptr) {
    const std::unique_ptr<detail::OfThread> object(newest);
    newest = object->before;
  }
}

// exit() calls the destructors of the main thread's thread_locals, and no others.
struct MainThread {
  ~MainThread() { destroy_all(); }
};
bool is_main_thread() { return ::getpid() == ::gettid(); }
void note_main_thread() {
  static thread_local const MainThread thread;
  static_cast<void>(thread);
}
// As the library is loaded, there is memory for that.
[[maybe_unused]] const bool noted = is_main_thread() && (note_main_thread(), true);

void note_thread() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    if (::pthread_key_create(&made, [](void*) { destroy_all(); }) != 0) throw std::bad_alloc();
    return made;
  }();
  if (::pthread_setspecific(key, &newest) != 0) throw std::bad_alloc();
}

}  // namespace

namespace detail {

void notice_thread_end() {
  if (newest == nullptr) is_main_thread() ? note_main_thread() : note_thread();
}

void destroy_at_thread_end(OfThread* object) noexcept {
  object->before = newest;
  newest = object;
}

}  // namespace detail
}  // namespace heddle
