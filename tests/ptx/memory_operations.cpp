// Loads, stores and asynchronous copies.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

// Invariant: global memory that nobody writes in this launch.
enum class Window : uint8_t { global, invariant, shared, local, generic };

// Where a generic address points to.
Window window_of(uint64_t& address) {
  const uint64_t window = address & window_mask;
  if (window == shared_window) {
    address -= shared_window;
    return Window::shared;
  }
  if (window == local_window) {
    address -= local_window;
    return Window::local;
  }
  return Window::global;
}

template <Window In>
const std::byte* readable(Block& b, uint32_t lane, uint64_t address, uint32_t bytes) {
  Window in = In;
  if (In == Window::generic) in = window_of(address);
  if (in == Window::shared) return b.shared.load(lane, address, bytes);
  if (in == Window::invariant) return b.global<Touch::read_invariant>(lane, address, bytes);
  return in == Window::local ? b.local(lane, address, bytes) : b.global<Touch::read>(lane, address, bytes);
}
template <Window In>
void store_bytes(Block& b, uint32_t lane, uint64_t address, const void* value, uint32_t bytes) {
  Window in = In;
  if (In == Window::generic) in = window_of(address);
  if (in == Window::shared) return b.shared.store(lane, address, value, bytes);
  if (in != Window::local) return b.store_global(lane, address, value, bytes);
  std::memcpy(b.local(lane, address, bytes), value, bytes);
}

// Addresses in registers have 64 bits, in shared memory also 32: the first operand's width decides.
template <class A, class Each>
void each_address(Block& b, const Op& op, int operand, const Each& each) {
  const A* base = b.reg<A>(op, operand);
  for (uint32_t k = 0; k < b.active.count; ++k) {
    const uint32_t lane = b.active.list[k];
    each(lane, static_cast<uint64_t>(base[lane]) + static_cast<uint64_t>(op.immediate));
  }
}

// Operand 0 is the address; the parts of the vector follow. M is an element in memory, R in its register.
template <class M, class R, Window In, class A>
void load(Block& b, const Op& op) {
  if (op.count == 1) {
    R* d = b.reg<R>(op, 1);
    return each_address<A>(b, op, 0, [&](uint32_t lane, uint64_t address) {
      M value;
      std::memcpy(&value, readable<In>(b, lane, address, sizeof(M)), sizeof(M));
      d[lane] = static_cast<R>(value);
    });
  }
  each_address<A>(b, op, 0, [&](uint32_t lane, uint64_t address) {
    M values[4];
    const auto bytes = static_cast<uint32_t>(sizeof(M) * op.count);
    std::memcpy(values, readable<In>(b, lane, address, bytes), bytes);
    for (int k = 0; k < op.count; ++k) b.reg<R>(op, k + 1)[lane] = static_cast<R>(values[k]);
  });
}

template <class M, class R, Window In, class A>
void store(Block& b, const Op& op) {
  each_address<A>(b, op, 0, [&](uint32_t lane, uint64_t address) {
    M values[4];
    for (int k = 0; k < op.count; ++k) values[k] = static_cast<M>(b.reg<R>(op, k + 1)[lane]);
    store_bytes<In>(b, lane, address, values, static_cast<uint32_t>(sizeof(M) * op.count));
  });
}

// A kernel's parameters are the same for all lanes; the address is a number.
template <class M, class R>
void load_parameter(Block& b, const Op& op) {
  for (int k = 0; k < op.count; ++k) {
    M value;
    std::memcpy(&value, b.parameters() + op.immediate + static_cast<int64_t>(sizeof(M)) * k, sizeof value);
    R* d = b.reg<R>(op, k + 1);
    b.active.each([=](uint32_t i) { d[i] = static_cast<R>(value); });
  }
}

// ---- choice of the function ----

struct Choice {
  Space space = Space::none;
  Type type = Type::none;
  uint32_t register_bytes = 0, address_bytes = 8;
  bool store = false, parameter = false, invariant = false;
};

template <class M, class R, class A>
Run in_space(const Choice& a) {
  switch (a.space) {
    case Space::global:
    case Space::constant:
      if (a.invariant) return load<M, R, Window::invariant, A>;
      return a.store ? store<M, R, Window::global, A> : load<M, R, Window::global, A>;
    case Space::shared:
      return a.store ? store<M, R, Window::shared, A> : load<M, R, Window::shared, A>;
    case Space::local:
      return a.store ? store<M, R, Window::local, A> : load<M, R, Window::local, A>;
    default:
      return a.store ? store<M, R, Window::generic, A> : load<M, R, Window::generic, A>;
  }
}

template <class M, class R>
Run with_address(const Choice& a) {
  if (a.parameter) return load_parameter<M, R>;
  return a.address_bytes == 8 ? in_space<M, R, uint64_t>(a) : in_space<M, R, uint32_t>(a);
}

// Registers hold integers extended as the type says; the register's type has the sign of the element's.
template <class M>
Run with_register(Decoder& d, const Choice& a) {
  constexpr bool with_sign = std::is_signed_v<M>;
  if (a.register_bytes < sizeof(M)) d.fail("a register is narrower than the type");
  if (a.register_bytes == 2) return with_address<M, std::conditional_t<with_sign, int16_t, uint16_t>>(a);
  if (a.register_bytes == 4) return with_address<M, std::conditional_t<with_sign, int32_t, uint32_t>>(a);
  if (a.register_bytes == 8) return with_address<M, std::conditional_t<with_sign, int64_t, uint64_t>>(a);
  d.fail("a register of 16, 32 or 64 bits is expected");
}

Run function_of(Decoder& d, const Choice& a) {
  switch (a.type) {
    case Type::u8:
    case Type::b8:
      return with_register<uint8_t>(d, a);
    case Type::s8:
      return with_register<int8_t>(d, a);
    case Type::s16:
      return with_register<int16_t>(d, a);
    case Type::s32:
      return with_register<int32_t>(d, a);
    default:
      break;
  }
  switch (bytes_of(a.type)) {
    case 2:
      return with_register<uint16_t>(d, a);
    case 4:
      return with_register<uint32_t>(d, a);
    case 8:
      return with_register<uint64_t>(d, a);
    default:
      d.fail("unknown type");
  }
}

Space space_of(Decoder& d) {
  if (d.take("global")) return Space::global;
  if (d.take("const")) return Space::constant;
  if (d.take("shared") || d.take("shared::cta")) return Space::shared;
  if (d.take("local")) return Space::local;
  if (d.take("param")) return Space::param;
  return Space::none;
}

// Where caches keep a value changes no value.
void take_cache_words(Decoder& d) {
  for (const char* word : {"ca",
                           "cg",
                           "cs",
                           "lu",
                           "cv",
                           "wb",
                           "wt",
                           "volatile",
                           "weak",
                           "relaxed",
                           "acquire",
                           "release",
                           "cta",
                           "gpu",
                           "sys",
                           "L1::evict_normal",
                           "L1::evict_first",
                           "L1::evict_last",
                           "L1::no_allocate",
                           "L1::evict_unchanged",
                           "L2::64B",
                           "L2::128B",
                           "L2::256B",
                           "unified"})
    d.take(word);
}

void decode_access(Decoder& d, bool stores) {
  Choice a;
  a.store = stores;
  a.space = space_of(d);
  a.invariant = !stores && d.take("nc");
  take_cache_words(d);
  const bool two = d.take("v2"), four = d.take("v4");
  a.type = d.type();
  d.expect_operands(2);
  const Operand& value = d.operand(stores ? 1 : 0);
  const Operand& where = d.operand(stores ? 0 : 1);
  std::vector<Operand> parts = value.kind == Operand::Kind::vector ? value.parts : std::vector<Operand>{value};
  if (parts.size() != (two ? 2u : four ? 4u : 1u)) d.fail("the vector has another number of parts");
  if (a.space == Space::param) {  // a kernel's parameter, or one of a call, which lies in the lane's frame
    const Variable* v = where.variable;
    if (!v) d.fail("a parameter by its name is expected");
    a.parameter = v->space == Space::param;
    if (where.offset < 0 || static_cast<uint64_t>(where.offset) + bytes_of(a.type) * parts.size() > v->bytes)
      d.fail("beyond the parameter");
    a.space = Space::local;
    if (a.parameter && stores) d.fail("a kernel's parameter is written");
  }
  const bool reads_register = value.kind == Operand::Kind::reg || value.kind == Operand::Kind::vector;
  for (const Operand& part : parts) {
    if (part.kind == Operand::Kind::reg) a.register_bytes = d.register_bytes(part);
  }
  if (!reads_register || a.register_bytes == 0) a.register_bytes = std::max(bytes_of(a.type), 2u);
  std::vector<uint32_t> places = {d.address(stores ? 0 : 1, &a.address_bytes)};
  if (a.parameter) d.op.immediate += static_cast<int64_t>(where.variable->offset);
  for (const Operand& part : parts)
    places.push_back(stores ? d.place(part, a.register_bytes) : d.target(part, a.register_bytes));
  d.op.count = static_cast<uint8_t>(parts.size());
  d.emit(function_of(d, a), places);
}

void decode_ld(Decoder& d) { decode_access(d, false); }
void decode_st(Decoder& d) { decode_access(d, true); }

// ---- cp.async ----

// Operands: the target's address, the source's, the bytes of the source. Op::count is the size.
template <class A>
void copy(Block& b, const Op& op) {
  const auto* to = b.reg<A>(op, 0);
  const auto* from = b.reg<uint64_t>(op, 1);
  const auto* given = b.reg<uint32_t>(op, 2);
  const auto* skip = b.reg<uint8_t>(op, 3);
  const int64_t source_offset = op.immediate, target_offset = op.target;
  const uint32_t size = op.count;
  for (uint32_t k = 0; k < b.active.count; ++k) {
    const uint32_t lane = b.active.list[k];
    const uint32_t bytes = skip[lane] ? 0 : given[lane];
    if (bytes > size) throw LaneFault{FaultKind::bounds, lane, "cp.async copies more than it writes"};
    const uint64_t source = from[lane] + static_cast<uint64_t>(source_offset);
    if (source % size != 0) throw LaneFault{FaultKind::misaligned, lane, "the source of a cp.async"};
    const std::byte* data = nullptr;
    if (bytes == size) {
      data = b.global<Touch::read>(lane, source, bytes);
    } else if (bytes > 0) {
      data = b.global<Touch::read>(lane, source, 1);
      for (uint32_t i = 1; i < bytes; ++i) b.global<Touch::read>(lane, source + i, 1);
    }
    b.copy_async(lane, static_cast<uint64_t>(to[lane]) + static_cast<uint64_t>(target_offset), data, size, bytes);
  }
}

void decode_copy(Decoder& d) {
  const bool through_l2 = d.take("cg");
  if (!through_l2 && !d.take("ca")) d.fail("of cp.async, .ca and .cg are known");
  if (!d.take("shared") && !d.take("shared::cta")) d.fail("cp.async goes to shared memory");
  if (!d.take("global")) d.fail("cp.async comes from global memory");
  take_cache_words(d);
  const uint64_t size = d.immediate(2);
  if (size != 16 && (through_l2 || (size != 4 && size != 8))) d.fail("cp.async copies 4, 8 or 16 bytes, .cg 16");
  uint32_t target_bytes = 0, source_bytes = 0;
  const uint32_t to = d.address(0, &target_bytes);
  d.op.target = static_cast<int32_t>(d.op.immediate);
  const uint32_t from = d.address(1, &source_bytes);
  if (source_bytes != 8) d.fail("an address of global memory has 64 bits");
  uint32_t given = d.constant(size, 4), skip = d.constant(0, 1);
  if (d.operand_count() > 3) {
    const Operand& last = d.operand(3);
    const bool predicate = last.kind == Operand::Kind::reg && d.register_bytes(last) == 1;
    (predicate ? skip : given) = d.place(last, predicate ? 1 : 4);
  }
  d.op.count = static_cast<uint8_t>(size);
  d.emit(target_bytes == 8 ? copy<uint64_t> : copy<uint32_t>, {to, from, given, skip});
}

void decode_cp(Decoder& d) {
  if (!d.take("async")) d.fail("of cp, cp.async is known");
  if (d.take("commit_group"))
    return d.emit([](Block& b, const Op&) { b.active.each([&](uint32_t lane) { b.commit_async(lane); }); }, {});
  if (d.take("wait_all")) return d.emit([](Block& b, const Op&) { b.wait_async(0, true); }, {});
  if (d.take("wait_group")) {
    d.op.immediate = static_cast<int64_t>(d.immediate(0));
    return d.emit([](Block& b, const Op& op) { b.wait_async(static_cast<uint32_t>(op.immediate), false); }, {});
  }
  decode_copy(d);
}

}  // namespace

void add_memory(Families& families) {
  families["ld"] = decode_ld;
  families["ldu"] = decode_ld;
  families["st"] = decode_st;
  families["cp"] = decode_cp;
}

}  // namespace heddle::ptx
