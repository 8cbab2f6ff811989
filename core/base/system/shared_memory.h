// Memory that several processes of one machine map.
//
// Invariants: it is zero at first, and there while one process maps it; nothing of it is left behind by processes that
// are killed. Errors: an empty one, where the system has none of this kind, lacks the memory, or another process of
// that name cannot be seen. Thread safety: what one process writes others see as threads do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace heddle::os {

class SharedMemory {
 public:
  SharedMemory() = default;
  // `bytes` above 0, from a page on.
  static SharedMemory make(uint64_t bytes);
  // What another process made, by its name: as long as the maker has it.
  static SharedMemory open(const std::string& name, uint64_t bytes);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept { swap(other); }
  SharedMemory& operator=(SharedMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* first() const { return first_; }  // null: empty
  const std::string& name() const { return name_; }

 private:
  static SharedMemory mapped(int descriptor, uint64_t bytes);
  void swap(SharedMemory& other) noexcept {
    std::swap(first_, other.first_);
    std::swap(bytes_, other.bytes_);
    std::swap(descriptor_, other.descriptor_);
    std::swap(name_, other.name_);
  }

  std::byte* first_ = nullptr;
  uint64_t bytes_ = 0;
  int descriptor_ = -1;
  std::string name_;
};

}  // namespace heddle::os
