// Checks that every device makes of what it is given, in one place, so that all backends refuse the same mistakes with
// the same words.
//
// Purpose: compilers call check_kernel, load_all() calls check_binary, record() calls check_commands, write() and
// read() call check_access. None of this is on the path of submit(). Errors are LimitError (a limit of Caps, named) or
// DeviceError (a broken rule of device.h). Thread safety: pure functions.
#pragma once

#include <array>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/contract/device.h"

namespace heddle {

// Names, number of constants and bindings, group size and shared memory.
void check_kernel(const KernelSource& source, const Caps& caps);
// The same of what load_all() is given, as far as a binary says it; DeviceError for binary_fault() and for code that
// such a device does not load.
void check_binary(const KernelBinary& binary, const Caps& caps);

// How a device answers questions about its handles; null for handles that are not alive.
struct HandleLookup {
  std::function<const uint64_t*(BufferId)> buffer_bytes;
  std::function<const KernelSignature*(KernelId)> kernel;
};
// Handles alive, ranges inside buffers, alignment, bindings and constants as declared, group limits, no overlap between
// bindings of one dispatch where one is written (unless one of the two is declared may_alias), no overlapping copies.
void check_commands(std::span<const Command> commands, const Caps& caps, const HandleLookup& lookup);

// Bounds of a host access; `place` is "write" or "read". bytes == 0 is allowed and means nothing.
void check_access(const char* place, const uint64_t* buffer_bytes, uint64_t offset, uint64_t bytes);
// bytes > 0 and at most max_allocation_bytes.
void check_allocation(uint64_t bytes, const Caps& caps);

bool overlaps(const Binding& a, const Binding& b);
// "add" for a dispatch of kernel add, "copy", "fill".
std::string describe(const Command& command, const HandleLookup& lookup);
// The last few commands, for the text of DeviceLost: "... dispatch of matmul, dispatch of add, copy".
std::string describe_last(std::span<const Command> commands, const HandleLookup& lookup);
// Every buffer that the commands touch, each once.
std::vector<BufferId> buffers_of(std::span<const Command> commands);

}  // namespace heddle
