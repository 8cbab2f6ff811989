// Storages over memory of others, and addresses of storages, on devices whose memory is the host's (HostMemory).
// Thread safety: as DeviceContext.
#pragma once

#include <cstdint>

#include "heddle/core/base/callable.h"
#include "heddle/core/contract/host_memory.h"
#include "heddle/core/device/context.h"

namespace heddle {

// Whether the device's memory is the host's.
bool has_host_memory(DeviceContext& context);

// A storage that begins `skip` bytes before the memory, which are less than the device's buffer_alignment: a driver may
// take whole pages alone. Null: the device cannot, or not with such an address or length.
struct Adopted {
  StoragePtr storage;
  uint64_t skip = 0;
};
// bytes > 0. `release` is called once, when nothing uses the memory any more, without the device's lock; not where the
// storage is null, or after an exception.
Adopted adopt_memory(DeviceContext& context, void* memory, uint64_t bytes, HostUse use, Callable<void()> release);

// The same of memory that nothing writes (ConstantMemory). Null: the device would copy it. Who records with it gives it
// a view that does not begin at its first byte: such a view is never assigned in place (View::is_dense()).
StoragePtr adopt_constant(
    DeviceContext& context, const void* memory, uint64_t bytes, Callable<void()> release = [] {});

// Where its first byte lies, after waiting for what was submitted; null: not at an address of the host.
void* host_address(Storage& storage);
// The same, to be read, after waiting for what was submitted with it alone: work behind that may go on. Null besides
// where nothing was since it was written last.
const void* host_value(Storage& storage);
// The host has written there, after the device's work on it had finished: nothing that was kept of the former bytes
// counts any more.
void note_host_write(Storage& storage);

}  // namespace heddle
