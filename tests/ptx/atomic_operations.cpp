// Atomic operations on global and shared memory.
#include <atomic>
#include <bit>
#include <cstring>
#include <type_traits>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

struct AtomicAdd {
  template <class T>
  T operator()(T old, T a, T) const {
    return static_cast<T>(old + a);
  }
};
struct Least {
  template <class T>
  T operator()(T old, T a, T) const {
    return a < old ? a : old;
  }
};
struct Greatest {
  template <class T>
  T operator()(T old, T a, T) const {
    return old < a ? a : old;
  }
};
struct Exchange {
  template <class T>
  T operator()(T, T a, T) const {
    return a;
  }
};
struct CompareExchange {
  template <class T>
  T operator()(T old, T a, T b) const {
    return old == a ? b : old;
  }
};
struct AtomicAnd {
  template <class T>
  T operator()(T old, T a, T) const {
    return old & a;
  }
};
struct AtomicOr {
  template <class T>
  T operator()(T old, T a, T) const {
    return old | a;
  }
};
struct AtomicXor {
  template <class T>
  T operator()(T old, T a, T) const {
    return old ^ a;
  }
};
// Counts up to a, or down from a, and around.
struct Increment {
  template <class T>
  T operator()(T old, T a, T) const {
    return old >= a ? T{0} : old + 1;
  }
};
struct Decrement {
  template <class T>
  T operator()(T old, T a, T) const {
    return old == 0 || old > a ? a : old - 1;
  }
};

// Operands: the old value, the address, a, b. T is what F works on; Op::count bit 0: shared memory, bit 1: generic.
template <class F, class T, class A>
void update(Block& b, const Op& op) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const auto* base = b.reg<A>(op, 1);
  const auto *x = b.reg<T>(op, 2), *y = b.reg<T>(op, 3);
  auto* d = b.reg<T>(op, 0);
  for (uint32_t k = 0; k < b.active.count; ++k) {
    const uint32_t lane = b.active.list[k];
    uint64_t address = static_cast<uint64_t>(base[lane]) + static_cast<uint64_t>(op.immediate);
    bool in_shared = op.count & 1;
    if (op.count & 2 && (address & window_mask) == shared_window) {
      in_shared = true;
      address -= shared_window;
    }
    std::byte* at =
        in_shared ? b.shared.update(lane, address, sizeof(T)) : b.global<Touch::update>(lane, address, sizeof(T));
    const std::atomic_ref<Bits> memory(*reinterpret_cast<Bits*>(at));
    Bits old = memory.load();
    while (!memory.compare_exchange_weak(old, std::bit_cast<Bits>(F()(std::bit_cast<T>(old), x[lane], y[lane])))) {
    }
    d[lane] = std::bit_cast<T>(old);
  }
}

template <class F>
Run of_type(Decoder& d, Type type, uint32_t address_bytes) {
  const bool wide = address_bytes == 8;
  switch (type) {
    case Type::b32:
    case Type::u32:
      return wide ? update<F, uint32_t, uint64_t> : update<F, uint32_t, uint32_t>;
    case Type::s32:
      return wide ? update<F, int32_t, uint64_t> : update<F, int32_t, uint32_t>;
    case Type::b64:
    case Type::u64:
      return wide ? update<F, uint64_t, uint64_t> : update<F, uint64_t, uint32_t>;
    case Type::s64:
      return wide ? update<F, int64_t, uint64_t> : update<F, int64_t, uint32_t>;
    default:
      break;
  }
  if constexpr (std::is_same_v<F, AtomicAdd>) {
    if (type == Type::f32) return wide ? update<F, float, uint64_t> : update<F, float, uint32_t>;
    if (type == Type::f64) return wide ? update<F, double, uint64_t> : update<F, double, uint32_t>;
  }
  d.fail("an atomic operation on this type is unknown");
}

template <class F>
Run of_unsigned(Decoder& d, Type type, uint32_t address_bytes) {
  if (type != Type::u32) d.fail("an atomic operation on this type is unknown");
  return of_type<F>(d, type, address_bytes);
}

Run operation(Decoder& d, Type type, uint32_t bytes) {
  if (d.take("add")) return of_type<AtomicAdd>(d, type, bytes);
  if (is_float(type)) d.fail("an atomic operation on this type is unknown");
  if (d.take("min")) return of_type<Least>(d, type, bytes);
  if (d.take("max")) return of_type<Greatest>(d, type, bytes);
  if (d.take("exch")) return of_type<Exchange>(d, type, bytes);
  if (d.take("cas")) return of_type<CompareExchange>(d, type, bytes);
  if (d.take("and")) return of_type<AtomicAnd>(d, type, bytes);
  if (d.take("or")) return of_type<AtomicOr>(d, type, bytes);
  if (d.take("xor")) return of_type<AtomicXor>(d, type, bytes);
  if (d.take("inc")) return of_unsigned<Increment>(d, type, bytes);
  if (d.take("dec")) return of_unsigned<Decrement>(d, type, bytes);
  d.fail("unknown atomic operation");
}

void decode_update(Decoder& d, bool gives) {
  const bool in_shared = d.take("shared") || d.take("shared::cta"), in_global = d.take("global");
  for (const char* word : {"relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys"}) d.take(word);
  const Type type = d.type();
  const size_t first = gives ? 1 : 0;
  uint32_t bytes = 0;
  const uint32_t base = d.address(first, &bytes);
  const Run run = operation(d, type, bytes);
  const uint32_t a = d.source(first + 1, type);
  const uint32_t b = d.operand_count() > first + 2 ? d.source(first + 2, type) : a;
  Operand sink;
  d.op.count = static_cast<uint8_t>((in_shared ? 1 : 0) | (!in_shared && !in_global ? 2 : 0));
  d.emit(run, {gives ? d.target(0, type) : d.target(sink, bytes_of(type)), base, a, b});
}

}  // namespace

void add_atomic(Families& families) {
  families["atom"] = [](Decoder& d) { decode_update(d, true); };
  families["red"] = [](Decoder& d) { decode_update(d, false); };
}

}  // namespace heddle::ptx
