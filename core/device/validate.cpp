#include "heddle/core/device/validate.h"

#include <fmt/format.h>

#include <set>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/error.h"

namespace heddle {
namespace {

bool is_identifier(const std::string& name) {
  if (name.empty() || is_ascii_digit(name[0])) return false;
  for (char c : name) {
    if (!continues_name(c)) return false;
  }
  return true;
}

void check_names(const KernelSource& source) {
  std::set<std::string> seen;
  auto take = [&](const std::string& name, const char* what) {
    if (!is_identifier(name)) {
      throw DeviceError(fmt::format("[compile] kernel {}: {} '{}' is no identifier", source.name, what, name));
    }
    if (!seen.insert(name).second) {
      throw DeviceError(fmt::format("[compile] kernel {}: the name '{}' is declared twice", source.name, name));
    }
  };
  if (!is_identifier(source.name))
    throw DeviceError(fmt::format("[compile] kernel name '{}' is no identifier", source.name));
  for (const auto& b : source.buffers) take(b.name, "buffer");
  for (const auto& c : source.constants) take(c.name, "constant");
  for (const auto& s : source.shared) take(s.name, "shared array");
}

[[noreturn]] void limit(const std::string& place, const char* what, uint64_t asked, const char* name,
                        uint64_t allowed) {
  throw LimitError(fmt::format("{}: {} {} is over the device's {} = {}", place, what, asked, name, allowed));
}

void check_signature(const KernelSignature& kernel, const Caps& caps, const std::string& place) {
  if (kernel.constants > KernelSource::max_constants) {
    limit(place, "number of constants", kernel.constants, "limit of 128 bytes, in constants,",
          KernelSource::max_constants);
  }
  if (kernel.buffers.size() > caps.max_bindings) {
    limit(place, "number of buffers", kernel.buffers.size(), "max_bindings", caps.max_bindings);
  }
  uint64_t lanes = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    if (kernel.group[axis] == 0) throw DeviceError(fmt::format("{}: group[{}] is 0", place, axis));
    if (kernel.group[axis] > caps.max_group[axis]) {
      limit(place, "group size", kernel.group[axis], "max_group", caps.max_group[axis]);
    }
    lanes *= kernel.group[axis];
  }
  if (lanes > caps.max_group_lanes) limit(place, "number of lanes", lanes, "max_group_lanes", caps.max_group_lanes);
}

bool loads(Target target, KernelBinary::Kind kind) {
  using Kind = KernelBinary::Kind;
  if (target == Target::glsl) return kind == Kind::spirv;
  if (target == Target::cuda) return kind == Kind::cuda;
  return target == Target::opencl && (kind == Kind::opencl_c || kind == Kind::opencl_program);
}

// One command of a recording, with the text that its errors start with.
class CommandCheck {
 public:
  CommandCheck(size_t index, const Command& command, const Caps& caps, const HandleLookup& lookup)
      : caps_(caps),
        lookup_(lookup),
        place_(fmt::format("[record] command {} ({})", index, describe(command, lookup))) {}

  void operator()(const Dispatch& d) const {
    const KernelSignature* kernel = lookup_.kernel(d.kernel);
    if (!kernel) fail(fmt::format("kernel handle {} is not alive", static_cast<uint64_t>(d.kernel)));
    if (d.bindings.size() != kernel->buffers.size()) {
      fail(fmt::format("{} bindings given, the kernel declares {} buffers", d.bindings.size(), kernel->buffers.size()));
    }
    if (d.constants.size() != kernel->constants) {
      fail(fmt::format("{} constants given, the kernel declares {}", d.constants.size(), kernel->constants));
    }
    for (int axis = 0; axis < 3; ++axis) {
      if (d.groups[axis] == 0) fail(fmt::format("groups[{}] is 0; an empty launch must not be recorded", axis));
      if (d.groups[axis] > caps_.max_groups[axis]) {
        limit(place_, "number of groups", d.groups[axis], "max_groups", caps_.max_groups[axis]);
      }
    }
    for (size_t i = 0; i < d.bindings.size(); ++i) check_binding(d.bindings[i], kernel->buffers[i].name);
    check_aliasing(d, *kernel);
  }

  void operator()(const Copy& c) const {
    if (c.src.size != c.dst.size) fail(fmt::format("source of {} bytes, target of {}", c.src.size, c.dst.size));
    check_range(c.src, "source");
    check_range(c.dst, "target");
    bool small = c.src.size == 1 || c.src.size == 2;
    if (!small && (c.src.size % 4 || c.src.offset % 4 || c.dst.offset % 4)) {
      fail(fmt::format("{} bytes from offset {} to offset {}: sizes and offsets must be multiples of 4", c.src.size,
                       c.src.offset, c.dst.offset));
    }
    if (overlaps(c.src, c.dst)) {
      fail(fmt::format("source and target overlap: [{}, +{}) and [{}, +{}) of one buffer", c.src.offset, c.src.size,
                       c.dst.offset, c.dst.size));
    }
  }

  void operator()(const Fill& f) const {
    check_range(f.dst, "target");
    if (f.dst.offset % 4 || f.dst.size % 4) {
      fail(fmt::format("offset {} and size {} must be multiples of 4", f.dst.offset, f.dst.size));
    }
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw DeviceError(place_ + ": " + what); }

  void check_range(const Binding& b, const std::string& what) const {
    const uint64_t* bytes = lookup_.buffer_bytes(b.buffer);
    if (!bytes) fail(fmt::format("{}: buffer handle {} is not alive", what, static_cast<uint64_t>(b.buffer)));
    if (b.size == 0) fail(what + ": size is 0");
    if (b.offset > *bytes || b.size > *bytes - b.offset) {
      fail(fmt::format("{}: bytes [{}, +{}) do not fit the buffer of {} bytes", what, b.offset, b.size, *bytes));
    }
  }

  void check_binding(const Binding& b, const std::string& name) const {
    check_range(b, "binding '" + name + "'");
    if (b.offset % caps_.buffer_alignment) {
      fail(fmt::format("binding '{}': offset {} is no multiple of the device's buffer_alignment = {}", name, b.offset,
                       caps_.buffer_alignment));
    }
    if (b.size > caps_.max_binding_bytes) {
      limit(place_ + ": binding '" + name + "'", "size", b.size, "max_binding_bytes", caps_.max_binding_bytes);
    }
  }

  void check_aliasing(const Dispatch& d, const KernelSignature& kernel) const {
    for (size_t i = 0; i < d.bindings.size(); ++i) {
      for (size_t j = i + 1; j < d.bindings.size(); ++j) {
        const BufferParam &a = kernel.buffers[i], &b = kernel.buffers[j];
        bool written = a.access != Access::read || b.access != Access::read;
        if (!written || a.may_alias || b.may_alias || !overlaps(d.bindings[i], d.bindings[j])) continue;
        fail(fmt::format("bindings '{}' and '{}' overlap and one is written, but neither is declared may_alias", a.name,
                         b.name));
      }
    }
  }

  const Caps& caps_;
  const HandleLookup& lookup_;
  std::string place_;
};

}  // namespace

void check_kernel(const KernelSource& source, const Caps& caps) {
  check_names(source);
  const std::string place = "[compile] kernel " + source.name;
  check_signature(signature_of(source), caps, place);
  for (const auto& s : source.shared) {
    if (s.count == 0) throw DeviceError(fmt::format("{}: shared array '{}' has no elements", place, s.name));
  }
  const uint64_t shared = shared_bytes(source);
  if (shared > caps.shared_bytes) limit(place, "shared memory (bytes)", shared, "shared_bytes", caps.shared_bytes);
}

void check_binary(const KernelBinary& binary, const Caps& caps) {
  const std::string place = "[load] kernel " + binary.signature.name;
  check_signature(binary.signature, caps, place);
  const std::string fault = binary_fault(binary);
  if (!fault.empty()) throw DeviceError(fmt::format("{}: {}", place, fault));
  if (!loads(caps.target, binary.kind))
    throw DeviceError(fmt::format("{}: it was compiled for another backend; this device takes kernels in {}", place,
                                  name_of(caps.target)));
  if (binary.dynamic_shared > caps.shared_bytes)
    limit(place, "shared memory (bytes)", binary.dynamic_shared, "shared_bytes", caps.shared_bytes);
}

void check_commands(std::span<const Command> commands, const Caps& caps, const HandleLookup& lookup) {
  for (size_t i = 0; i < commands.size(); ++i) std::visit(CommandCheck(i, commands[i], caps, lookup), commands[i]);
}

void check_access(const char* place, const uint64_t* buffer_bytes, uint64_t offset, uint64_t bytes) {
  if (!buffer_bytes) throw DeviceError(fmt::format("[{}] the buffer handle is not alive", place));
  if (offset > *buffer_bytes || bytes > *buffer_bytes - offset) {
    throw DeviceError(
        fmt::format("[{}] bytes [{}, +{}) do not fit the buffer of {} bytes", place, offset, bytes, *buffer_bytes));
  }
}

void check_allocation(uint64_t bytes, const Caps& caps) {
  if (bytes == 0) throw DeviceError("[alloc] a buffer must have at least one byte");
  if (bytes > caps.max_allocation_bytes)
    limit("[alloc]", "size", bytes, "max_allocation_bytes", caps.max_allocation_bytes);
}

bool overlaps(const Binding& a, const Binding& b) {
  return a.buffer == b.buffer && a.offset < b.offset + b.size && b.offset < a.offset + a.size;
}

std::string describe(const Command& command, const HandleLookup& lookup) {
  if (std::holds_alternative<Copy>(command)) return "copy";
  if (std::holds_alternative<Fill>(command)) return "fill";
  const KernelSignature* kernel = lookup.kernel(std::get<Dispatch>(command).kernel);
  return kernel ? "dispatch of " + kernel->name : "dispatch";
}

std::string describe_last(std::span<const Command> commands, const HandleLookup& lookup) {
  constexpr size_t shown = 8;
  size_t first = commands.size() > shown ? commands.size() - shown : 0;
  std::string text = first ? "... " : "";
  for (size_t i = first; i < commands.size(); ++i) text += (i > first ? ", " : "") + describe(commands[i], lookup);
  return text;
}

std::vector<BufferId> buffers_of(std::span<const Command> commands) {
  std::set<BufferId> found;
  for (const Command& command : commands) {
    if (auto* d = std::get_if<Dispatch>(&command)) {
      for (const Binding& b : d->bindings) found.insert(b.buffer);
    } else if (auto* c = std::get_if<Copy>(&command)) {
      found.insert(c->src.buffer);
      found.insert(c->dst.buffer);
    } else {
      found.insert(std::get<Fill>(command).dst.buffer);
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace heddle
