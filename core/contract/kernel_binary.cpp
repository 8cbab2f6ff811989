#include "heddle/core/contract/kernel_binary.h"

#include <cstring>

#include "heddle/core/base/hash.h"
#include "heddle/core/contract/spirv.h"

namespace heddle {
namespace {

bool begins_as_spirv(const std::vector<uint8_t>& bytes) {
  if (bytes.size() < spirv_head * sizeof(uint32_t) || bytes.size() % sizeof(uint32_t) != 0) return false;
  uint32_t first = 0;
  std::memcpy(&first, bytes.data(), sizeof(first));
  return first == spirv_magic;
}

// The buffers' own slots come first and in order; each further one is of quads.
bool slots_fit(const KernelBinary& binary) {
  const size_t own = binary.signature.buffers.size();
  if (binary.slots.size() < own || binary.slots.size() > 2 * own) return false;
  for (size_t i = 0; i < binary.slots.size(); ++i) {
    const BufferSlot& slot = binary.slots[i];
    if (slot.buffer >= own || (i < own && slot.buffer != i)) return false;
    if ((slot.kind == BufferSlot::Kind::quads) != (i >= own)) return false;
  }
  return true;
}

}  // namespace

KernelSignature signature_of(const KernelSource& source) {
  return {source.name, source.buffers, source.constants.size(), source.group};
}

// The name is left out: it changes messages, not code.
uint64_t KernelBinary::hash() const {
  uint64_t value = hash_combine(0x48444b42u, static_cast<uint64_t>(kind));  // "HDKB"
  value = hash_combine(value, hash_bytes(bytes.data(), bytes.size()));
  for (const BufferParam& b : signature.buffers) {
    value = hash_combine(value, static_cast<uint64_t>(b.dtype) | static_cast<uint64_t>(b.access) << 8 |
                                    static_cast<uint64_t>(b.may_alias) << 16);
  }
  value = hash_combine(value, signature.constants);
  for (const uint32_t lanes : signature.group) value = hash_combine(value, lanes);
  for (const BufferSlot& slot : slots)
    value = hash_combine(value, slot.buffer << 16 | static_cast<uint64_t>(slot.kind) << 8 | uint64_t{slot.image});
  return hash_combine(value, uint64_t{dynamic_shared} << 1 | uint64_t{subgroups});
}

std::string binary_fault(const KernelBinary& binary) {
  using Kind = KernelBinary::Kind;
  if (binary.signature.constants > KernelSource::max_constants) return "a kernel has too many constants";
  for (const uint32_t lanes : binary.signature.group) {
    if (lanes == 0) return "a kernel has no lanes";
  }
  if (binary.kind == Kind::none) return binary.bytes.empty() ? "" : "a kernel has code of no kind";
  if (binary.bytes.empty()) return "a kernel has no code";
  if (binary.kind == Kind::spirv) {
    if (!begins_as_spirv(binary.bytes)) return "a kernel is not the SPIR-V that it says it is";
    if (!slots_fit(binary)) return "the bindings of a kernel do not fit its buffers";
  }
  return "";
}

}  // namespace heddle
