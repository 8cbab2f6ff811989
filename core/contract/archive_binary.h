// A compiled kernel for an Archive (core/base/archive.h). Thread safety: pure functions.
#pragma once

#include "heddle/core/base/archive.h"
#include "heddle/core/contract/archive_kernel.h"
#include "heddle/core/contract/kernel_binary.h"

namespace heddle {

template <>
inline constexpr int archived_values<BufferSlot::Kind> = 3;
template <>
inline constexpr int archived_values<KernelBinary::Kind> = 5;

template <class Archive>
void visit(Archive& a, KernelSignature& s) {
  a(s.name);
  visit(a, s.buffers);
  a(s.constants);
  for (uint32_t& lanes : s.group) a(lanes);
}

// But for the signature.
template <class Archive>
void visit(Archive& a, KernelBinary& b) {
  a(b.kind);
  a.numbers(b.bytes);
  a.list(b.slots, [&](BufferSlot& s) { a(s.buffer, s.kind, s.image); });
  a(b.subgroups, b.dynamic_shared);
}

}  // namespace heddle
