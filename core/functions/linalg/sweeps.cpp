#include "heddle/core/functions/linalg/sweeps.h"

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/build_linalg.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/linalg/reflectors.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/tiles/linalg_tiles.h"

namespace heddle::linalg {
namespace {

using build::caps_of;
using build::record;

// What shaders/tridiagonal.hk (bidiagonal.hk, with `both`) leaves of x.
struct Condensed {
  Tensor state;
  int64_t n, first;  // the row of the diagonal
  Tensor rows(int64_t start, int64_t stop) const { return slice(state, 1, {.start = start, .stop = stop}); }
  Tensor row(int64_t number) const {
    return reshape(slice(rows(first + number, first + number + 1), 2, {.stop = n}), Shape{state.dim(0), n});
  }
};

Condensed condensed(const Tensor& x, bool both) {
  const int64_t n = x.dim(1), steps = condensing_steps(caps_of(x), x.dtype(), n, both);
  Tensor state = pad(x, {{0, 0}, {0, both ? n + 7 : 5}, {0, condensing_pitch(n) - n}});
  for (int64_t first = 0; first < n; first += steps) {
    state = record(both ? bidiagonal_op : tridiagonal_op, {&state}, Attrs{{n, first, std::min(n, first + steps)}},
                   state.shape(), state.dtype());
  }
  return {state, n, both ? 2 * n : n};
}

// The transpose of a product of reflections, whole sixteens of columns.
Tensor turned(const Tensor& vectors, const Tensor& taus) {
  const int64_t n = taus.dim(1);
  return pad(transpose(orthogonal(blocks_of(vectors, taus, n), n)), {{0, 0}, {0, 0}, {0, round_up(n, 16) - n}});
}

struct Swept {
  Tensor values, done;
};

// Sweeps over the condensed form; `sides` are turned by their rotations: of V^T, then of U^T.
Swept sweep(const Condensed& form, std::vector<Tensor*> sides) {
  const auto kinds = static_cast<int64_t>(sides.size());
  const Tensor& like = form.state;
  const int64_t n = form.n, count = like.dim(0);
  const SweepLaunches launches = sweep_launches(caps_of(like), like.dtype(), n);
  const int64_t table = 2 * n + 2, angles = table + 3 * launches.sweeps, size = angles + 2 * kinds * launches.room;
  Tensor pack = pad(concat({form.row(0), form.row(1)}, 1), {{0, 0}, {0, 1}});
  for (int64_t launch = 0; launch < launches.launches; ++launch) {
    pack = record(kinds == 2 ? bidiagonal_sweeps_op : tridiagonal_sweeps_op, {&pack},
                  Attrs{{n, launches.sweeps, launches.room}}, Shape{count, size}, like.dtype());
    for (int64_t side = 0; side < kinds; ++side) {
      Tensor& rows = *sides[static_cast<size_t>(side)];
      rows = record(rotate_rows_op, {&pack, &rows},
                    Attrs{{2 * n + 1, table, angles + 2 * side, 2 * kinds, launches.room}}, rows.shape(), rows.dtype());
    }
  }
  return {part(pack, 0, {n}), part(pack, 2 * n, {1})};
}

}  // namespace

const OpDef tridiagonal_op{.name = "tridiagonal",
                           .kind = OpKind::body,
                           .arity = 1,
                           .rule = DTypeRule::any,
                           .doc = "some columns of symmetric matrices, reflected from both sides"};
const OpDef bidiagonal_op{.name = "bidiagonal",
                          .kind = OpKind::body,
                          .arity = 1,
                          .rule = DTypeRule::any,
                          .doc = "some columns and rows of square matrices, reflected"};
const OpDef tridiagonal_sweeps_op{.name = "tridiagonal_sweeps",
                                  .kind = OpKind::body,
                                  .arity = 1,
                                  .rule = DTypeRule::any,
                                  .doc = "some implicit QR sweeps over tridiagonal matrices"};
const OpDef bidiagonal_sweeps_op{.name = "bidiagonal_sweeps",
                                 .kind = OpKind::body,
                                 .arity = 1,
                                 .rule = DTypeRule::any,
                                 .doc = "some implicit QR sweeps over bidiagonal matrices"};
const OpDef rotate_rows_op{.name = "rotate_rows",
                           .kind = OpKind::body,
                           .arity = 2,
                           .rule = DTypeRule::any,
                           .doc = "rows after rotations of sweeps"};

SweptSymmetric swept_symmetric(const Tensor& x) {
  const Condensed form = condensed(x, false);
  Tensor rows = turned(form.rows(0, form.n), form.row(2));
  const Swept made = sweep(form, {&rows});
  return {made.values, rows, made.done};
}

SweptSingular swept_singular(const Tensor& x) {
  const Condensed form = condensed(x, true);
  Tensor left = turned(form.rows(form.n, 2 * form.n), form.row(2)), right = turned(form.rows(0, form.n), form.row(3));
  const Swept made = sweep(form, {&right, &left});
  return {made.values, left, right, made.done};
}

}  // namespace heddle::linalg
