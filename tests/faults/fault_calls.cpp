#include "tests/faults/fault_calls.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace heddle::test {
namespace {

struct Shared {
  std::array<std::atomic<uint64_t>, all_calls.size()> counts{};
};

Shared* shared = nullptr;
std::atomic<bool> armed{false};
Fault fault;

void* map_of(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) {
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, bytes, protection, flags, descriptor, offset));
}

// Whether this call fails; errno says why.
bool fails(Call call) {
  if (!armed.load(std::memory_order_relaxed)) return false;
  const uint64_t number = ++shared->counts[static_cast<size_t>(call)];
  if (call != fault.call || fault.number == 0 || fault.error == 0) return false;
  const uint64_t first = fault.number + (fault.partial ? 1 : 0);
  if (number != first && !(fault.from_then && number > first)) return false;
  errno = fault.error;
  return true;
}

bool is_partial(Call call) {
  return armed.load(std::memory_order_relaxed) && fault.partial && fault.call == call &&
         shared->counts[static_cast<size_t>(call)] == fault.number;
}

}  // namespace

const char* name_of(Call call) {
  return std::array{"open", "write", "fsync", "rename", "mmap", "alloc"}[static_cast<size_t>(call)];
}

void arm(const Fault& wanted) {
  disarm();
  share_counts();
  for (auto& count : shared->counts) count = 0;
  fault = wanted;
  armed = true;
}
void disarm() { armed = false; }
void share_counts() {
  if (shared == nullptr)
    shared = static_cast<Shared*>(
        map_of(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
}
uint64_t calls(Call call) { return shared == nullptr ? 0 : shared->counts[static_cast<size_t>(call)].load(); }

}  // namespace heddle::test

using heddle::test::Call;
using heddle::test::fails;

namespace {

int open_at(int folder, const char* path, int flags, mode_t mode) {
  return fails(Call::open) ? -1 : static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}

mode_t mode_in(int flags, va_list arguments) {
  return (flags & (O_CREAT | O_TMPFILE)) != 0 ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace

// ---- the C library's functions

extern "C" {

#define HEDDLE_OPEN(name)                          \
  int name(const char* path, int flags, ...) {     \
    va_list arguments;                             \
    va_start(arguments, flags);                    \
    const mode_t mode = mode_in(flags, arguments); \
    va_end(arguments);                             \
    return open_at(AT_FDCWD, path, flags, mode);   \
  }
#define HEDDLE_OPENAT(name)                                \
  int name(int folder, const char* path, int flags, ...) { \
    va_list arguments;                                     \
    va_start(arguments, flags);                            \
    const mode_t mode = mode_in(flags, arguments);         \
    va_end(arguments);                                     \
    return open_at(folder, path, flags, mode);             \
  }
HEDDLE_OPEN(open)
HEDDLE_OPEN(open64)
HEDDLE_OPENAT(openat)
HEDDLE_OPENAT(openat64)

ssize_t write(int descriptor, const void* from, size_t bytes) {
  if (fails(Call::write)) return -1;
  if (bytes > 1 && heddle::test::is_partial(Call::write)) bytes /= 2;
  return ::syscall(SYS_write, descriptor, from, bytes);
}

int fsync(int descriptor) { return fails(Call::fsync) ? -1 : static_cast<int>(::syscall(SYS_fsync, descriptor)); }
int fdatasync(int descriptor) {
  return fails(Call::fsync) ? -1 : static_cast<int>(::syscall(SYS_fdatasync, descriptor));
}
int rename(const char* from, const char* to) noexcept {
  return fails(Call::rename) ? -1 : static_cast<int>(::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

void* mmap(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) noexcept {
  return fails(Call::mmap) ? MAP_FAILED : heddle::test::map_of(address, bytes, protection, flags, descriptor, offset);
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int descriptor, off_t offset) noexcept {
  return fails(Call::mmap) ? MAP_FAILED : heddle::test::map_of(address, bytes, protection, flags, descriptor, offset);
}

// A sanitizer has its own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && defined(__GLIBC__)
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* before, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

void* malloc(size_t bytes) noexcept { return fails(Call::alloc) ? nullptr : __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) noexcept { return fails(Call::alloc) ? nullptr : __libc_calloc(count, bytes); }
void* realloc(void* before, size_t bytes) noexcept {
  return fails(Call::alloc) ? nullptr : __libc_realloc(before, bytes);
}
void* memalign(size_t alignment, size_t bytes) noexcept {
  return fails(Call::alloc) ? nullptr : __libc_memalign(alignment, bytes);
}
void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  return fails(Call::alloc) ? nullptr : __libc_memalign(alignment, bytes);
}
int posix_memalign(void** result, size_t alignment, size_t bytes) noexcept {
  if (fails(Call::alloc)) return ENOMEM;
  *result = __libc_memalign(alignment, bytes);
  return *result == nullptr ? ENOMEM : 0;
}
#endif

}  // extern "C"
