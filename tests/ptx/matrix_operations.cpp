// Matrix units: ldmatrix and mma.sync. Fragments lie as the PTX ISA says ("Matrix fragments for mma.m16n8k..."): with
// g = lane / 4 and t = lane % 4, a register of A or B holds elements of row (B: column) g, those of a result rows g and
// g + 8, columns 2 t and 2 t + 1.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

// First lane of each warp; all 32 lanes must be there.
template <class Each>
void each_whole_warp(Block& b, const Each& each) {
  for (uint32_t k = 0; k < b.active.count; k += 32) {
    const uint32_t first = b.active.list[k];
    if (first % 32 != 0 || k + 32 > b.active.count || b.active.list[k + 31] != first + 31)
      throw LaneFault{FaultKind::warp, first, "an instruction of all 32 lanes of a warp, which are not all there"};
    each(first);
  }
}

// ---- ldmatrix ----

// Operand 0 is the address of a row of 8 elements of 16 bits: lane 8 m + r has that of row r of matrix m.
template <class A, bool Transposed>
void load_matrices(Block& b, const Op& op) {
  const auto* base = b.reg<A>(op, 0);
  each_whole_warp(b, [&](uint32_t first) {
    std::array<std::array<std::array<uint16_t, 8>, 8>, 4> matrices;
    for (uint32_t m = 0; m < op.count; ++m) {
      for (uint32_t r = 0; r < 8; ++r) {
        const uint32_t lane = first + 8 * m + r;
        const uint64_t address = static_cast<uint64_t>(base[lane]) + static_cast<uint64_t>(op.immediate);
        if (address % 16 != 0)
          throw LaneFault{FaultKind::misaligned, lane, "a row of ldmatrix at " + std::to_string(address)};
        // The bytes are read by all lanes of the warp: for the records it is this one that does.
        std::memcpy(matrices[m][r].data(), b.shared.load(lane, address, 16), 16);
      }
    }
    for (uint32_t m = 0; m < op.count; ++m) {
      auto* d = b.reg<uint32_t>(op, static_cast<int>(m) + 1) + first;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t g = lane / 4, t = lane % 4 * 2;
        const uint32_t low = Transposed ? matrices[m][t][g] : matrices[m][g][t];
        const uint32_t high = Transposed ? matrices[m][t + 1][g] : matrices[m][g][t + 1];
        d[lane] = low | high << 16;
      }
    }
  });
}

void decode_ldmatrix(Decoder& d) {
  for (const char* word : {"sync", "aligned", "m8n8"}) {
    if (!d.take(word)) d.fail("ldmatrix.sync.aligned.m8n8 is known");
  }
  if (!d.take("shared") && !d.take("shared::cta")) d.fail("ldmatrix reads shared memory");
  const uint32_t count = d.take("x1") ? 1 : d.take("x2") ? 2 : d.take("x4") ? 4 : 0;
  const bool transposed = d.take("trans");
  if (d.type() != Type::b16 || count == 0) d.fail("ldmatrix has .x1, .x2 or .x4 and the type b16");
  const Operand& to = d.operand(0);
  const std::vector<Operand> parts = to.kind == Operand::Kind::vector ? to.parts : std::vector<Operand>{to};
  if (parts.size() != count) d.fail("another number of registers than matrices");
  uint32_t bytes = 0;
  std::vector<uint32_t> places = {d.address(1, &bytes)};
  for (const Operand& part : parts) places.push_back(d.target(part, 4));
  d.op.count = static_cast<uint8_t>(count);
  d.op.control = Control::warp;
  const bool wide = bytes == 8;
  d.emit(transposed ? (wide ? load_matrices<uint64_t, true> : load_matrices<uint32_t, true>)
                    : (wide ? load_matrices<uint64_t, false> : load_matrices<uint32_t, false>),
         places);
}

// ---- mma ----

struct FromF16 {
  static constexpr uint32_t per_word = 2;
  using Value = double;
  static double value(uint32_t word, uint32_t i) { return F16::value(word >> (16 * i) & 0xffffu); }
};
struct FromBf16 {
  static constexpr uint32_t per_word = 2;
  using Value = double;
  static double value(uint32_t word, uint32_t i) { return Bf16::value(word >> (16 * i) & 0xffffu); }
};
// The unit looks at 19 bits of what should be tf32.
struct FromTf32 {
  static constexpr uint32_t per_word = 1;
  using Value = double;
  static double value(uint32_t word, uint32_t) { return static_cast<double>(std::bit_cast<float>(word & 0xffffe000u)); }
};
struct FromS8 {
  static constexpr uint32_t per_word = 4;
  using Value = int32_t;
  static int32_t value(uint32_t word, uint32_t i) { return static_cast<int8_t>(word >> (8 * i)); }
};
struct FromU8 {
  static constexpr uint32_t per_word = 4;
  using Value = int32_t;
  static int32_t value(uint32_t word, uint32_t i) { return static_cast<uint8_t>(word >> (8 * i)); }
};

// d = a b + c of 16 x K, K x 8. A has K / (4 per_word) registers for the rows g and as many for g + 8, alternating; B
// half of that. Sums of floats are exact up to a double's rounding and rounded to f32 once.
template <class A, class B, class C, uint32_t K>
void multiply_fragments(Block& b, const Op& op) {
  constexpr uint32_t per_word = A::per_word, words = K / (4 * per_word);
  using Value = typename A::Value;
  each_whole_warp(b, [&](uint32_t first) {
    Value left[16][K], right[K][8];
    for (uint32_t w = 0; w < words; ++w) {
      const uint32_t* upper = b.reg<uint32_t>(op, static_cast<int>(4 + 2 * w)) + first;
      const uint32_t* lower = b.reg<uint32_t>(op, static_cast<int>(4 + 2 * w + 1)) + first;
      const uint32_t* of_b = b.reg<uint32_t>(op, static_cast<int>(4 + 2 * words + w)) + first;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t g = lane / 4, k = w * 4 * per_word + lane % 4 * per_word;
        for (uint32_t i = 0; i < per_word; ++i) {
          left[g][k + i] = A::value(upper[lane], i);
          left[g + 8][k + i] = A::value(lower[lane], i);
          right[k + i][g] = B::value(of_b[lane], i);
        }
      }
    }
    C made[4][32];  // a result's register may be one of c's
    for (uint32_t r = 0; r < 4; ++r) {
      const C* c = b.reg<C>(op, static_cast<int>(4 + 3 * words + r)) + first;
      for (uint32_t lane = 0; lane < 32; ++lane) {
        const uint32_t row = lane / 4 + r / 2 * 8, column = lane % 4 * 2 + r % 2;
        Value sum = 0;
        for (uint32_t k = 0; k < K; ++k) sum += left[row][k] * right[k][column];
        if constexpr (std::is_same_v<C, float>)
          made[r][lane] = static_cast<float>(sum + static_cast<double>(c[lane]));
        else
          made[r][lane] = static_cast<C>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(c[lane]));
      }
    }
    for (uint32_t r = 0; r < 4; ++r) std::copy_n(made[r], 32, b.reg<C>(op, static_cast<int>(r)) + first);
  });
}

struct Unit {
  std::string_view shape;
  Type a, b, c;
  uint32_t words;  // registers of B
  Run run;
};
constexpr Unit units[] = {
    {"m16n8k16", Type::f16, Type::f16, Type::f32, 2, multiply_fragments<FromF16, FromF16, float, 16>},
    {"m16n8k8", Type::f16, Type::f16, Type::f32, 1, multiply_fragments<FromF16, FromF16, float, 8>},
    {"m16n8k16", Type::bf16, Type::bf16, Type::f32, 2, multiply_fragments<FromBf16, FromBf16, float, 16>},
    {"m16n8k8", Type::bf16, Type::bf16, Type::f32, 1, multiply_fragments<FromBf16, FromBf16, float, 8>},
    {"m16n8k8", Type::tf32, Type::tf32, Type::f32, 2, multiply_fragments<FromTf32, FromTf32, float, 8>},
    {"m16n8k4", Type::tf32, Type::tf32, Type::f32, 1, multiply_fragments<FromTf32, FromTf32, float, 4>},
    {"m16n8k32", Type::s8, Type::s8, Type::s32, 2, multiply_fragments<FromS8, FromS8, int32_t, 32>},
    {"m16n8k16", Type::s8, Type::s8, Type::s32, 1, multiply_fragments<FromS8, FromS8, int32_t, 16>},
    {"m16n8k32", Type::u8, Type::u8, Type::s32, 2, multiply_fragments<FromU8, FromU8, int32_t, 32>},
    {"m16n8k32", Type::u8, Type::s8, Type::s32, 2, multiply_fragments<FromU8, FromS8, int32_t, 32>},
    {"m16n8k32", Type::s8, Type::u8, Type::s32, 2, multiply_fragments<FromS8, FromU8, int32_t, 32>},
};

// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {a}, {b}, {c}
void decode_mma(Decoder& d) {
  for (const char* word : {"sync", "aligned", "row", "col"}) {
    if (!d.take(word)) d.fail("mma.sync.aligned of .row and .col is known");
  }
  const std::string_view shape = d.first();
  const Type to = d.type(), a = d.type(), b = d.type(), c = d.type();
  d.expect_operands(4);
  for (const Unit& unit : units) {
    if (unit.shape != shape || unit.a != a || unit.b != b || unit.c != c || to != c) continue;
    std::vector<uint32_t> places;
    const size_t sizes[] = {4, 2 * unit.words, unit.words, 4};
    for (size_t i = 0; i < 4; ++i) {
      const Operand& o = d.operand(i);
      if (o.kind != Operand::Kind::vector || o.parts.size() != sizes[i]) d.fail("a fragment of another size");
      for (const Operand& part : o.parts) places.push_back(i == 0 ? d.target(part, 4) : d.place(part, 4));
    }
    d.op.control = Control::warp;
    return d.emit(unit.run, places);
  }
  d.fail("unknown shape or types of mma");
}

}  // namespace

void add_matrix(Families& families) {
  families["ldmatrix"] = decode_ldmatrix;
  families["mma"] = decode_mma;
}

}  // namespace heddle::ptx
