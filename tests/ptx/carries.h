// Sums with carries: add.cc, addc, sub.cc, subc, mad.cc, madc. Each lane has one flag.
//
// Purpose: part of arithmetic_operations.cpp. Thread safety: as Block.
#pragma once

#include "tests/ptx/arithmetic.h"
#include "tests/ptx/operations.h"

namespace heddle::ptx {

enum class Sum { add, subtract, mad_low, mad_high };
template <class T, Sum What>
void with_carry(Block& b, const Op& op) {
  using W = Unsigned128;
  constexpr bool mad = What == Sum::mad_low || What == Sum::mad_high;
  auto* d = b.reg<T>(op, 0);
  const auto *x = b.reg<T>(op, 1), *y = b.reg<T>(op, 2), *z = b.reg<T>(op, 3);
  auto* flag = b.at_place<uint32_t>(b.program().carry);
  const bool in = op.immediate & 1, out = op.immediate & 2;
  b.active.each([=](uint32_t i) {
    const W carry = in ? flag[i] : 0;
    W left = x[i], right = y[i];
    if (mad) {
      const W product = left * right;
      left = What == Sum::mad_low ? static_cast<T>(product) : static_cast<T>(product >> (8 * sizeof(T)));
      right = z[i];
    }
    const W sum = What == Sum::subtract ? left - right - carry : left + right + carry;
    d[i] = static_cast<T>(sum);
    if (out) flag[i] = static_cast<uint32_t>(sum >> (8 * sizeof(T))) & 1;
  });
}

template <Sum What>
void decode_carry(Decoder& d, bool in, bool out) {
  constexpr bool mad = What == Sum::mad_low || What == Sum::mad_high;
  const Type type = d.type();
  if (is_float(type) || bytes_of(type) < 4) d.fail("carries stand with integers of 32 and 64 bits");
  d.expect_operands(mad ? 4 : 3);
  d.op.immediate = (in ? 1 : 0) | (out ? 2 : 0);
  d.emit(bytes_of(type) == 8 ? with_carry<uint64_t, What> : with_carry<uint32_t, What>,
         {d.target(0, type), d.source(1, type), d.source(2, type), d.source(mad ? 3 : 1, type)});
}

}  // namespace heddle::ptx
