#include "heddle/core/functions/linalg/reflectors.h"

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/build_linalg.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/tiles/linalg_tiles.h"

namespace heddle::linalg {
namespace {

using build::caps_of;
using build::columns;
using build::record;
using build::rows;

Tensor corner(const Tensor& x, int64_t m, int64_t n) { return columns(rows(x, 0, m), 0, n); }
Tensor identity(const Tensor& like, int64_t count, int64_t m, int64_t n) {
  return expand(eye(m, n, like.dtype(), &like.device()), Shape{count, m, n});
}

// What shaders/qr.hk leaves of a (B, m, n), n at most qr_block().
struct Panel {
  Tensor r, t, y;
};
Panel factor_panel(const Tensor& a) {
  const int64_t count = a.dim(0), m = a.dim(1), n = a.dim(2), width = qr_width(n);
  const Tensor pack = record(qr_panel_op, {&a}, Attrs{{width}}, Shape{count, (2 * width + m) * width}, a.dtype());
  return {corner(part(pack, 0, {width, width}), n, n),
          transpose(corner(part(pack, width * width, {width, width}), n, n)),
          columns(part(pack, 2 * width * width, {m, width}), 0, n)};
}

Tensor factor_from(const Tensor& a, int64_t first, std::vector<ReflectorBlock>& blocks) {
  const int64_t m = a.dim(1), n = a.dim(2), least = std::min(m, n),
                width = std::min(least, qr_block(caps_of(a), a.dtype(), m, least));
  const Panel panel = factor_panel(columns(a, 0, width));
  blocks.push_back({first, panel.y, panel.t});
  if (width == n) return panel.r;
  const Tensor right = columns(a, width, n);
  const Tensor rest = right - matmul(panel.y, matmul(transpose(panel.t), matmul(transpose(panel.y), right)));
  if (width == m) return join({panel.r, rest}, 1, 0, m, n);
  const Tensor corner_of = factor_from(rows(rest, width, m), first + width, blocks);
  return join({panel.r, rows(rest, 0, width), rows(panel.y, width, least), corner_of}, 1, 1, least, n);
}

}  // namespace

const OpDef qr_panel_op{
    .name = "qr_panel", .kind = OpKind::body, .arity = 1, .rule = DTypeRule::any, .doc = "QR of narrow matrices"};

Tensor join(std::initializer_list<Tensor> blocks, int64_t right, int64_t below, int64_t m, int64_t n) {
  std::vector<NodePtr> inputs;
  for (const Tensor& block : blocks) inputs.push_back(block.node());
  const Tensor& a = *blocks.begin();
  return Tensor(make_node(join_blocks_op, std::move(inputs), Attrs{{right, below}}, Shape{a.dim(0), m, n}, a.dtype()));
}

Tensor factor_by_panels(const Tensor& a, std::vector<ReflectorBlock>& blocks) { return factor_from(a, 0, blocks); }

// With D of the factors and U what Y^T Y has above its diagonal, T = (I + D U)^-1 D: a factor may be 0 (Joffrain et
// al., "Accumulating Householder transformations, revisited", 2006).
std::vector<ReflectorBlock> blocks_of(const Tensor& vectors, const Tensor& taus, int64_t m) {
  const int64_t count = vectors.dim(0), k = taus.dim(1), width = std::min<int64_t>(k, 64), number = ceil_div(k, width),
                missing = number * width - k;
  const auto whole = [&](const Tensor& x) { return missing == 0 ? x : pad(x, {{0, 0}, {0, missing}, {0, 0}}); };
  const Tensor stack = reshape(whole(vectors), Shape{count * number, width, vectors.dim(2)});
  const Tensor factors = reshape(whole(unsqueeze(taus, 2)), Shape{count * number, width, 1});
  const Tensor t = triangular(matmul(stack, transpose(stack)) * factors,
                              identity(taus, count * number, width, width) * factors, true, false, true);
  const Tensor all = reshape(t, Shape{count, number, width, width});
  std::vector<ReflectorBlock> blocks;
  for (int64_t b = 0; b < number; ++b) {
    const int64_t first = b * width, here = std::min(width, k - first);
    blocks.push_back(
        {first, transpose(columns(rows(vectors, first, first + here), first, m)),
         corner(reshape(slice(all, 1, {.start = b, .stop = b + 1}), Shape{count, width, width}), here, here)});
  }
  return blocks;
}

Tensor orthogonal(const std::vector<ReflectorBlock>& blocks, int64_t columns_of) {
  Tensor q;
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    const Tensor &y = block->y, &t = block->t;
    const int64_t count = y.dim(0), m = y.dim(1), n = columns_of - block->first, width = y.dim(2);
    Tensor inner = identity(y, count, m, n), product = transpose(rows(y, 0, std::min(m, n)));
    if (q.defined()) {
      const Tensor zero = zeros({count, m - width, width}, y.dtype(), &y.device());
      inner = join({identity(y, count, width, width), zero, q}, 2, 1, m, n);
      product = matmul(transpose(y), inner);
    }
    q = inner - matmul(y, matmul(t, product));
  }
  return q;
}

}  // namespace heddle::linalg
