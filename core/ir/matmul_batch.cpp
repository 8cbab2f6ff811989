#include "heddle/core/ir/matmul_batch.h"

#include <stdexcept>
#include <vector>

namespace heddle {

std::optional<MatmulBatch> try_matmul_batch(const View& a, const View& b) {
  struct Loop {
    int64_t size, a, b;
  };
  std::vector<Loop> loops;
  for (int d = 0; d < a.shape.rank() - 2; ++d) {
    if (a.shape[d] == 1) continue;
    const Loop next{a.shape[d], a.strides[d], b.strides[d]};
    if (!loops.empty() && loops.back().a == next.a * next.size && loops.back().b == next.b * next.size) {
      loops.back() = {loops.back().size * next.size, next.a, next.b};
    } else {
      loops.push_back(next);
    }
  }
  if (loops.size() > 2) return std::nullopt;
  MatmulBatch batch;
  // The inner loop is the second entry.
  for (size_t i = 0; i < loops.size(); ++i) {
    const size_t at = 2 - loops.size() + i;
    batch.sizes[at] = loops[i].size;
    batch.a_strides[at] = loops[i].a;
    batch.b_strides[at] = loops[i].b;
  }
  return batch;
}

MatmulBatch matmul_batch(const View& a, const View& b) {
  const std::optional<MatmulBatch> batch = try_matmul_batch(a, b);
  if (!batch) throw std::logic_error("[lower] a matmul has more than two batch loops");
  return *batch;
}

}  // namespace heddle
