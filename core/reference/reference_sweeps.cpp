// References of the kernels of sweeps, in double precision: rotations make a tridiagonal matrix, or a bidiagonal one
// from both sides, diagonal. Written on whole matrices, so that a rotation is what it does to them; which rotations a
// sweep has may differ from shaders/tridiagonal_sweeps.hk and bidiagonal_sweeps.hk, what they make may not.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle::reference {
namespace {

constexpr double rounding = std::numeric_limits<double>::epsilon() / 2;

struct Turn {
  Turn(double f, double g) {
    const double size = std::hypot(f, g);
    if (size == 0) return;
    c = f / size;
    s = g / size;
  }
  double c = 1, s = 0;
};

// A banded matrix with a diagonal and two beside it.
struct Band {
  Band(const double* d, const double* e, int64_t count, bool both) : n(count), v(static_cast<size_t>(n * n)) {
    for (int64_t i = 0; i < n; ++i) at(i, i) = d[i];
    for (int64_t i = 0; i + 1 < n; ++i) at(i, i + 1) = e[i];
    for (int64_t i = 0; both && i + 1 < n; ++i) at(i + 1, i) = e[i];
  }
  double& at(int64_t i, int64_t j) { return v[static_cast<size_t>(i * n + j)]; }
  void rows(int64_t p, const Turn& t) {
    for (int64_t j = std::max<int64_t>(0, p - 2); j < std::min(n, p + 4); ++j) {
      const double a = at(p, j), b = at(p + 1, j);
      at(p, j) = t.c * a + t.s * b;
      at(p + 1, j) = t.c * b - t.s * a;
    }
  }
  void columns(int64_t p, const Turn& t) {
    for (int64_t i = std::max<int64_t>(0, p - 2); i < std::min(n, p + 4); ++i) {
      const double a = at(i, p), b = at(i, p + 1);
      at(i, p) = t.c * a + t.s * b;
      at(i, p + 1) = t.c * b - t.s * a;
    }
  }
  int64_t n;
  std::vector<double> v;
};

// The eigenvalue of [a, b; b, d] nearer to d.
double nearer(double a, double b, double d) {
  const double half = (a - d) / 2, root = std::hypot(half, b);
  return half == 0 && root == 0 ? d : d - b * b / (half + (half < 0 ? -root : root));
}

// One sweep over rows low to high; what it turned, as the kernels keep it.
void sweep_symmetric(Band& t, int64_t low, int64_t high, double* kept) {
  double f = t.at(low, low) - nearer(t.at(high - 1, high - 1), t.at(high - 1, high), t.at(high, high)),
         g = t.at(low, low + 1);
  for (int64_t i = low; i < high; ++i, kept += 2) {
    const Turn turn(f, g);
    t.rows(i, turn);
    t.columns(i, turn);
    kept[0] = turn.c;
    kept[1] = turn.s;
    f = t.at(i, i + 1);
    g = i + 2 < t.n ? t.at(i, i + 2) : 0;
  }
}

void sweep_both_sides(Band& b, int64_t low, int64_t high, double* kept) {
  const double f0 = high - 1 > low ? b.at(high - 2, high - 1) : 0, d = b.at(high - 1, high - 1),
               e = b.at(high - 1, high), h = b.at(high, high);
  bool plain = false;
  for (int64_t i = low; i <= high; ++i) plain = plain || std::abs(b.at(i, i)) <= rounding;
  const double shift = plain ? 0 : nearer(d * d + f0 * f0, d * e, e * e + h * h);
  double f = b.at(low, low) * b.at(low, low) - shift, g = b.at(low, low) * b.at(low, low + 1);
  if (plain) {
    f = b.at(low, low);
    g = b.at(low, low + 1);
  }
  for (int64_t i = low; i < high; ++i, kept += 4) {
    const Turn right(f, g);
    b.columns(i, right);
    const Turn left(b.at(i, i), b.at(i + 1, i));
    b.rows(i, left);
    b.at(i + 1, i) = 0;
    kept[0] = right.c;
    kept[1] = right.s;
    kept[2] = left.c;
    kept[3] = left.s;
    f = b.at(i, i + 1);
    g = i + 2 < b.n ? b.at(i, i + 2) : 0;
  }
}

HostArray swept(const Node& node, Inputs in, bool symmetric) {
  HostArray out = blank(node.shape, node.dtype);
  const int64_t n = node.attrs.ints[0], most = node.attrs.ints[1], room = node.attrs.ints[2], kind = symmetric ? 2 : 4;
  for (int64_t b = 0; b < node.shape[0]; ++b) {
    const double* from = in[0]->floats.data() + b * in[0]->shape[1];
    double *d = out.floats.data() + b * node.shape[1], *table = d + 2 * n + 2, *kept = table + 3 * most;
    Band band(from, from + n, n, symmetric);
    double top = 0;
    for (int64_t i = 0; i < 2 * n; ++i) top = std::max(top, std::abs(from[i]));
    const auto apart = [&](int64_t i) { return std::abs(band.at(i, i + 1)) <= rounding * top; };
    int64_t high = n - 1, count = 0, used = 0;
    bool done = from[2 * n] != 0;
    while (!done) {
      while (high > 0 && apart(high - 1)) band.at(high - 1, high) = band.at(high, high - 1) = 0, --high;
      int64_t low = high;
      while (low > 0 && !apart(low - 1)) --low;
      done = high <= 0;
      if (done || count == most || used + high - low > room) break;
      if (symmetric)
        sweep_symmetric(band, low, high, kept + kind * used);
      else
        sweep_both_sides(band, low, high, kept + kind * used);
      table[3 * count] = static_cast<double>(low);
      table[3 * count++ + 1] = static_cast<double>(high - low);
      used += high - low;
    }
    for (int64_t i = 0; i < n; ++i) d[i] = band.at(i, i);
    for (int64_t i = 0; i + 1 < n; ++i) d[n + i] = band.at(i, i + 1);
    d[2 * n] = done ? 1 : 0;
    d[2 * n + 1] = static_cast<double>(count);
  }
  return out;
}

HostArray rotate_rows(const Node& node, Inputs in) {
  HostArray out = *in[1];
  const auto& ints = node.attrs.ints;
  const int64_t n = node.shape[1], columns = node.shape[2];
  for (int64_t b = 0; b < node.shape[0]; ++b) {
    const double *f = in[0]->floats.data() + b * in[0]->shape[1], *entry = f + ints[1], *angle = f + ints[2];
    double* x = out.floats.data() + b * n * columns;
    for (double sweep = 0; sweep < f[ints[0]]; ++sweep, entry += 3) {
      double* p = x + static_cast<int64_t>(entry[0]) * columns;
      for (double i = 0; i < entry[1]; ++i, angle += ints[3]) {
        double* q = entry[2] != 0 ? p - columns : p + columns;
        for (int64_t j = 0; j < columns; ++j) {
          const double a = p[j], c = q[j];
          p[j] = angle[0] * a + angle[1] * c;
          q[j] = angle[0] * c - angle[1] * a;
        }
        p = q;
      }
    }
  }
  return out;
}

}  // namespace

HostArray sweeps(const Node& node, Inputs in) {
  if (node.op == &linalg::rotate_rows_op) return rotate_rows(node, in);
  return swept(node, in, node.op == &linalg::tridiagonal_sweeps_op);
}

}  // namespace heddle::reference
