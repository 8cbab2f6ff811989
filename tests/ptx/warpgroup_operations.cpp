// Matrix units of warpgroups: wgmma. What follows is the PTX ISA's section "Asynchronous Warpgroup Level Matrix
// Multiply-Accumulate Instructions": matrix descriptors, layouts with the swizzle of 128 bytes, and the registers of
// sums. With g = lane / 4 and t = lane % 4 of a warp w, register 4 j + 2 h + i of a result holds row 16 w + g + 8 h,
// column 8 j + 2 t + i.
#include <array>
#include <charconv>
#include <cstring>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

constexpr uint32_t depth = 16;

// The number of each warpgroup whose lanes are active; all 128 must be.
template <class Each>
void each_warpgroup(Block& b, const Each& each) {
  for (uint32_t k = 0; k < b.active.count; k += 128) {
    const uint32_t first = b.active.list[k];
    if (first % 128 != 0 || k + 128 > b.active.count || b.active.list[k + 127] != first + 127)
      throw LaneFault{FaultKind::warp, first,
                      "an instruction of all 128 lanes of a warpgroup, which are not all there"};
    each(first / 128);
  }
}

// ---- matrices in shared memory ----

struct Matrix {
  uint32_t start, leading, stride;
  bool turned;  // rows along m or n instead of along k
};

Matrix matrix_of(const uint64_t* descriptors, uint32_t first, bool turned) {
  const uint64_t bits = descriptors[first];
  for (uint32_t lane = first; lane < first + 128; ++lane) {
    if (descriptors[lane] != bits)
      throw LaneFault{FaultKind::warp, lane, "a matrix descriptor that differs from other lanes'"};
  }
  if (bits >> 62 != 1) throw LaneFault{FaultKind::other, first, "only the swizzle of 128 bytes is known"};
  if (bits >> 49 & 7) throw LaneFault{FaultKind::other, first, "a descriptor with a base offset"};
  const auto field = [&](int at) { return static_cast<uint32_t>(bits >> at & 0x3fff) * 16; };
  return {field(0), field(16), field(32), turned};
}

// Where element (i, k) lies. Eight rows of 128 bytes are 1,024 bytes, in which bits 7 to 9 of an address, the row, are
// xored into bits 4 to 6. The stride is from one such block to the next along the rows: along m or n, or along k where
// the matrix is turned; then the leading one is from 64 elements along m or n to the next 64.
uint32_t place(const Matrix& m, uint32_t i, uint32_t k) {
  const uint32_t linear = m.turned ? m.start + i / 64 * m.leading + k / 8 * m.stride + k % 8 * 128 + i % 64 * 2
                                   : m.start + i / 8 * m.stride + i % 8 * 128 + k * 2;
  return linear ^ (linear >> 7 & 7) << 4;
}

// Elements (i, k), k running fastest. What is read is read until the group is waited for.
template <class Numbers>
void read(Block& b, uint32_t warpgroup, const Matrix& m, uint32_t count, std::vector<double>& to) {
  to.resize(size_t{count} * depth);
  for (uint32_t i = 0; i < count; i += m.turned ? 2 : 1) {
    for (uint32_t k = 0; k < depth; k += m.turned ? 1 : 2) {
      const uint32_t at = place(m, i, k);
      uint32_t word;
      std::memcpy(&word, b.shared.load_async(128 * warpgroup, at, 4), 4);
      b.warpgroups.reads(warpgroup, {at, 4});
      to[size_t{i} * depth + k] = Numbers::value(word & 0xffff);
      to[m.turned ? size_t{i + 1} * depth + k : size_t{i} * depth + k + 1] = Numbers::value(word >> 16);
    }
  }
}

// ---- wgmma.mma_async ----

// Operands: n / 2 registers of sums, descriptors of a and b, the predicate that what they hold counts. Op::count is
// n / 8; bits of the immediate: a and b turned, a and b negated.
template <class Numbers>
void multiply(Block& b, const Op& op) {
  const uint32_t n = op.count * 8u, registers = n / 2;
  const auto* of_a = b.reg<uint64_t>(op, static_cast<int>(registers));
  const auto* of_b = b.reg<uint64_t>(op, static_cast<int>(registers + 1));
  const auto* counts = b.reg<uint8_t>(op, static_cast<int>(registers + 2));
  std::vector<double> left, right;
  each_warpgroup(b, [&](uint32_t warpgroup) {
    const uint32_t first = 128 * warpgroup;
    read<Numbers>(b, warpgroup, matrix_of(of_a, first, op.immediate & 1), 64, left);
    read<Numbers>(b, warpgroup, matrix_of(of_b, first, op.immediate & 2), n, right);
    const double sign = ((op.immediate >> 2) ^ (op.immediate >> 3)) & 1 ? -1 : 1;
    std::vector<float>& sums = b.warpgroups.sums(b, warpgroup, op.operands, registers);
    for (uint32_t r = 0; r < registers; ++r) {
      for (uint32_t lane = 0; lane < 128; ++lane) {
        const uint32_t row = lane / 32 * 16 + lane % 32 / 4 + r / 2 % 2 * 8, column = r / 4 * 8 + lane % 4 * 2 + r % 2;
        const double *x = left.data() + size_t{row} * depth, *y = right.data() + size_t{column} * depth;
        double sum = 0;
        for (uint32_t k = 0; k < depth; ++k) sum += x[k] * y[k];
        float& to = sums[size_t{r} * 128 + lane];
        to = static_cast<float>(sign * sum + (counts[first + lane] ? static_cast<double>(to) : 0.0));
      }
    }
  });
}

// "m64n256k16": 256
uint32_t columns_of(Decoder& d, std::string_view shape) {
  uint32_t n = 0;
  if (shape.starts_with("m64n") && shape.ends_with("k16"))
    std::from_chars(shape.data() + 4, shape.data() + shape.size() - 3, n);
  if (n == 0 || n > 256 || n % 8 != 0) d.fail("of wgmma, m64nNk16 is known, N a multiple of 8 up to 256");
  return n;
}

// wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {d}, a, b, counts, 1, 1, 0, 0
void decode_multiply(Decoder& d) {
  const uint32_t n = columns_of(d, d.first());
  const Type to = d.type(), a = d.type(), b = d.type();
  if (to != Type::f32 || a != b || (a != Type::f16 && a != Type::bf16))
    d.fail("of wgmma, f16 and bf16 with f32 sums are known");
  d.expect_operands(8);
  const Operand& sums = d.operand(0);
  if (sums.kind != Operand::Kind::vector || sums.parts.size() != n / 2) d.fail("another number of registers than sums");
  std::vector<uint32_t> places;
  for (const Operand& part : sums.parts) places.push_back(d.target(part, 4));
  places.push_back(d.source(1, Type::b64));
  places.push_back(d.source(2, Type::b64));
  places.push_back(d.place(d.operand(3), 1));
  const auto negated = [&](size_t i) {
    const auto scale = static_cast<int64_t>(d.immediate(i));
    if (scale != 1 && scale != -1) d.fail("an operand is scaled by 1 or -1");
    return scale == -1 ? 1 : 0;
  };
  d.op.immediate = static_cast<int64_t>(d.immediate(6) & 1) | static_cast<int64_t>(d.immediate(7) & 1) << 1 |
                   negated(4) << 2 | negated(5) << 3;
  d.op.count = static_cast<uint8_t>(n / 8);
  d.emit(a == Type::f16 ? multiply<F16> : multiply<Bf16>, places);
}

void decode_wgmma(Decoder& d) {
  const std::string_view what = d.first();
  for (const char* word : {"sync", "aligned"}) {
    if (!d.take(word)) d.fail("wgmma is .sync.aligned");
  }
  d.op.control = Control::warpgroup;
  if (what == "mma_async") return decode_multiply(d);
  if (what == "fence")
    return d.emit([](Block& b, const Op&) { each_warpgroup(b, [&](uint32_t w) { b.warpgroups.fence(w); }); }, {});
  if (what == "commit_group")
    return d.emit([](Block& b, const Op&) { each_warpgroup(b, [&](uint32_t w) { b.warpgroups.commit(w); }); }, {});
  if (what != "wait_group") d.fail("of wgmma, mma_async, fence, commit_group and wait_group are known");
  d.op.immediate = static_cast<int64_t>(d.immediate(0));
  d.emit(
      [](Block& b, const Op& op) {
        each_warpgroup(b, [&](uint32_t w) { b.warpgroups.wait(b, w, static_cast<uint32_t>(op.immediate)); });
      },
      {});
}

}  // namespace

void add_warpgroup(Families& families) { families["wgmma"] = decode_wgmma; }

}  // namespace heddle::ptx
