#include "heddle/core/tiles/matmul_problem.h"

namespace heddle {

int64_t matmul_wide(DType dtype, const MatmulStrides& s, int64_t rows, int64_t columns) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16 && dtype != DType::i8) return 0;
  // With two unit strides one dimension has length 1 (or they overlap): no run of 16 bytes.
  if ((s.first == 1) == (s.second == 1)) return 0;
  const int64_t run = 16 / static_cast<int64_t>(size_of(dtype));
  const int64_t step = s.second == 1 ? s.first : s.second, length = s.second == 1 ? columns : rows;
  for (const int64_t x : {s.offset, s.batch1, s.batch2, step, length}) {
    if (x % run != 0) return 0;
  }
  return run;
}

}  // namespace heddle
