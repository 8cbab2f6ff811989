#include "heddle/core/base/of_this_thread.h"

#include <memory>
#include <new>

#include "heddle/core/base/system/threads.h"

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
void note_main_thread() {
  static thread_local const MainThread thread;
  static_cast<void>(thread);
}
// As the library is loaded, there is memory for that.
[[maybe_unused]] const bool noted = os::is_main_thread() && (note_main_thread(), true);

void note_thread() {
  if (!os::call_at_thread_end([] { destroy_all(); })) throw std::bad_alloc();
}

}  // namespace

namespace detail {

void notice_thread_end() {
  const bool first = newest == nullptr;
  if (os::is_main_thread()) {
    if (first) note_main_thread();
    os::call_before_statics([] { destroy_all(); });  // for each object: statics are made meanwhile
  } else if (first) {
    note_thread();
  }
}

void destroy_at_thread_end(OfThread* object) noexcept {
  object->before = newest;
  newest = object;
}

}  // namespace detail
}  // namespace heddle
