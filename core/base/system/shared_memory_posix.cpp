#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "heddle/core/base/system/shared_memory.h"

namespace heddle::os {

SharedMemory SharedMemory::mapped(int descriptor, uint64_t bytes) {
  SharedMemory made;
  if (descriptor < 0) return made;
  made.descriptor_ = descriptor;
  void* const first = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (first == MAP_FAILED) return made;
  made.first_ = static_cast<std::byte*>(first);
  made.bytes_ = bytes;
  return made;
}

// A file without a name, which others reach through this process's descriptor: no folder is needed, and nothing stays.
// Its pages are taken at once, since one that is missing later would end who touches it.
SharedMemory SharedMemory::make(uint64_t bytes) {
#ifdef __linux__
  const int descriptor = ::memfd_create("heddle", MFD_CLOEXEC);
  SharedMemory made = descriptor >= 0 && ::posix_fallocate(descriptor, 0, static_cast<off_t>(bytes)) == 0
                          ? mapped(descriptor, bytes)
                          : SharedMemory();
  if (made.first() == nullptr) {
    if (made.descriptor_ < 0 && descriptor >= 0) ::close(descriptor);
    return {};
  }
  made.name_ = fmt::format("/proc/{}/fd/{}", ::getpid(), descriptor);
  return made;
#else
  (void)bytes;
  return {};
#endif
}

SharedMemory SharedMemory::open(const std::string& name, uint64_t bytes) {
  const int descriptor = ::open(name.c_str(), O_RDWR | O_CLOEXEC);
  struct stat facts {};
  if (descriptor < 0) return {};
  if (::fstat(descriptor, &facts) != 0 || static_cast<uint64_t>(facts.st_size) != bytes) {
    ::close(descriptor);
    return {};
  }
  SharedMemory opened = mapped(descriptor, bytes);
  opened.name_ = name;
  return opened;
}

SharedMemory::~SharedMemory() {
  if (first_ != nullptr) ::munmap(first_, static_cast<size_t>(bytes_));
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace heddle::os
