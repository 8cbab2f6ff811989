#include "tests/runtime/counted_new.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <new>

namespace {

thread_local bool counting = false;
thread_local size_t counted = 0;

bool is_heddle(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && info.dli_fname != nullptr && std::strstr(info.dli_fname, "libheddle") != nullptr;
}

void* taken(size_t bytes, const void* caller) {
  if (counting && is_heddle(caller)) ++counted;
  return std::malloc(bytes > 0 ? bytes : 1);
}
void* required(size_t bytes, const void* caller) {
  void* const memory = taken(bytes, caller);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return required(bytes, __builtin_return_address(0)); }
void* operator new[](size_t bytes) { return required(bytes, __builtin_return_address(0)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return taken(bytes, __builtin_return_address(0)); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return taken(bytes, __builtin_return_address(0)); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace heddle::test {

CountedNew::CountedNew() {
  counted = 0;
  counting = true;
}
CountedNew::~CountedNew() { counting = false; }
size_t CountedNew::count() const { return counted; }

}  // namespace heddle::test
