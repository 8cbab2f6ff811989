// Moves between registers and addresses of spaces.
#include <cstring>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

// ---- mov ----

template <class T>
void read_clock(Block& b, const Op& op) {
  auto* d = b.reg<T>(op, 0);
  const uint64_t now = b.clock();
  b.active.each([=](uint32_t i) { d[i] = static_cast<T>(now); });
}

// A word from parts, lowest first, or parts from a word; Op::immediate is the bytes of a part.
void pack(Block& b, const Op& op) {
  const auto part = static_cast<size_t>(op.immediate), whole = part * op.count;
  auto* d = b.reg<std::byte>(op, 0);
  for (int k = 0; k < op.count; ++k) {
    const auto* s = b.reg<std::byte>(op, k + 1);
    b.active.each([=](uint32_t i) { std::memcpy(d + i * whole + static_cast<size_t>(k) * part, s + i * part, part); });
  }
}
void unpack(Block& b, const Op& op) {
  const auto part = static_cast<size_t>(op.immediate), whole = part * op.count;
  const auto* s = b.reg<std::byte>(op, 0);
  // The source may be one of the targets no wider than it: it is read whole first.
  b.active.each([&](uint32_t i) {
    std::byte word[16];
    std::memcpy(word, s + i * whole, whole);
    for (int k = 0; k < op.count; ++k)
      std::memcpy(b.reg<std::byte>(op, k + 1) + i * part, word + static_cast<size_t>(k) * part, part);
  });
}

void decode_packing(Decoder& d, Type type, bool packs) {
  const Operand& parts = d.operand(packs ? 1 : 0);
  const auto count = static_cast<uint32_t>(parts.parts.size());
  const uint32_t bytes = bytes_of(type);
  if (count == 0 || bytes % count != 0) d.fail("so many parts are no word");
  const uint32_t part = bytes / count;
  std::vector<uint32_t> places = {packs ? d.target(0, type) : d.source(1, type)};
  for (const Operand& o : parts.parts) places.push_back(packs ? d.place(o, part) : d.target(o, part));
  d.op.count = static_cast<uint8_t>(count);
  d.op.immediate = part;
  d.emit(packs ? pack : unpack, places);
}

void decode_mov(Decoder& d) {
  const Type type = d.type();
  d.expect_operands(2);
  const Operand& from = d.operand(1);
  if (d.operand(0).kind == Operand::Kind::vector) return decode_packing(d, type, false);
  if (from.kind == Operand::Kind::vector) return decode_packing(d, type, true);
  if (from.kind == Operand::Kind::special && (from.name == "%clock64" || from.name == "%globaltimer"))
    return d.emit(read_clock<uint64_t>, {d.target(0, Type::u64)});
  if (from.kind == Operand::Kind::special && from.name == "%clock")
    return d.emit(read_clock<uint32_t>, {d.target(0, Type::u32)});
  Run run = nullptr;
  switch (bytes_of(type)) {
    case 1:
      run = each_lane<Same, uint8_t, uint8_t>;
      break;
    case 2:
      run = each_lane<Same, uint16_t, uint16_t>;
      break;
    case 4:
      run = each_lane<Same, uint32_t, uint32_t>;
      break;
    default:
      run = each_lane<Same, uint64_t, uint64_t>;
      break;
  }
  if (from.kind == Operand::Kind::special && type != Type::u32 && type != Type::b32 && type != Type::s32)
    d.fail("a special register has 32 bits");
  d.emit(run, type, {type});
}

// ---- addresses ----

struct AddWindow {
  uint64_t operator()(uint64_t a, uint64_t window) const { return a + window; }
};
struct SubtractWindow {
  uint64_t operator()(uint64_t a, uint64_t window) const { return a - window; }
};

// cvta.shared.u64: from an address in that space to a generic one; cvta.to.shared.u64 back.
void decode_cvta(Decoder& d) {
  const bool to = d.take("to");
  uint64_t window = 0;
  if (d.take("shared")) {
    d.take("::cta");
    window = shared_window;
  } else if (d.take("local")) {
    window = local_window;
  } else if (!d.take("global") && !d.take("const") && !d.take("param")) {
    d.fail("cvta lacks a space");
  }
  if (d.type() != Type::u64) d.fail("addresses of 64 bits are known");
  d.expect_operands(2);
  d.emit(
      to ? each_lane<SubtractWindow, uint64_t, uint64_t, uint64_t> : each_lane<AddWindow, uint64_t, uint64_t, uint64_t>,
      {d.target(0, Type::u64), d.source(1, Type::u64), d.constant(window, 8)});
}

}  // namespace

void add_moves(Families& families) {
  families["mov"] = decode_mov;
  families["cvta"] = decode_cvta;
}

}  // namespace heddle::ptx
