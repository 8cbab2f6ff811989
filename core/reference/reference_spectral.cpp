// References of QR, symmetric eigenvalues and singular values, in double precision; they share their reflections and
// rotations.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle::reference {
namespace {

struct Dense {
  Dense(int64_t rows, int64_t columns) : m(rows), n(columns), v(static_cast<size_t>(rows * columns)) {}
  double& operator()(int64_t i, int64_t j) { return v[static_cast<size_t>(i * n + j)]; }
  int64_t m, n;
  std::vector<double> v;
};

Dense unit(int64_t m, int64_t n) {
  Dense x(m, n);
  for (int64_t i = 0; i < std::min(m, n); ++i) x(i, i) = 1;
  return x;
}

Dense matrix_of(const HostArray& x, int64_t number) {
  Dense a(x.shape.dim(-2), x.shape.dim(-1));
  std::copy_n(x.floats.begin() + number * a.m * a.n, a.m * a.n, a.v.begin());
  return a;
}

Dense turned(Dense a) {
  Dense t(a.n, a.m);
  for (int64_t i = 0; i < a.m; ++i) {
    for (int64_t j = 0; j < a.n; ++j) t(j, i) = a(i, j);
  }
  return t;
}

// a becomes R; the first `columns` columns of Q.
Dense householder(Dense& a, int64_t columns) {
  std::vector<std::vector<double>> vectors;
  std::vector<double> taus;
  const auto reflect = [](Dense& x, const std::vector<double>& v, double tau, int64_t k, int64_t from) {
    for (int64_t j = from; j < x.n; ++j) {
      double dot = 0;
      for (int64_t i = k; i < x.m; ++i) dot += v[static_cast<size_t>(i)] * x(i, j);
      for (int64_t i = k; i < x.m; ++i) x(i, j) -= tau * dot * v[static_cast<size_t>(i)];
    }
  };
  for (int64_t k = 0; k < std::min(a.m, a.n); ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < a.m; ++i) below += a(i, k) * a(i, k);
    const double alpha = a(k, k), norm = std::sqrt(alpha * alpha + below),
                 beta = below == 0  ? alpha
                        : alpha > 0 ? -norm
                                    : norm;
    std::vector<double> v(static_cast<size_t>(a.m));
    v[static_cast<size_t>(k)] = 1;
    for (int64_t i = k + 1; i < a.m; ++i) v[static_cast<size_t>(i)] = below == 0 ? 0 : a(i, k) / (alpha - beta);
    taus.push_back(below == 0 ? 0 : (beta - alpha) / beta);
    reflect(a, v, taus.back(), k, k);
    for (int64_t i = k + 1; i < a.m; ++i) a(i, k) = 0;
    vectors.push_back(std::move(v));
  }
  Dense q = unit(a.m, columns);
  for (size_t k = vectors.size(); k-- > 0;) reflect(q, vectors[k], taus[k], static_cast<int64_t>(k), 0);
  return q;
}

HostArray qr(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const Shape& shape = in[0]->shape;
  const int64_t m = shape.dim(-2), n = shape.dim(-1), columns = node.attrs.ints[0] != 0 ? m : std::min(m, n);
  for (int64_t b = 0; b < linalg::batch_count(shape); ++b) {
    Dense r = matrix_of(*in[0], b);
    const Dense q = householder(r, columns);
    const auto to = out.floats.begin() + b * node.shape.dim(-1);
    std::copy_n(r.v.begin(), columns * n, std::copy(q.v.begin(), q.v.end(), to));
  }
  return out;
}

// Turns columns p and q of x by the rotation that makes [app, apq; apq, aqq] diagonal.
struct Rotation {
  Rotation(double app, double aqq, double apq) {
    const double zeta = (aqq - app) / (2 * apq), t = (zeta < 0 ? -1 : 1) / (std::abs(zeta) + std::hypot(zeta, 1.0));
    c = 1 / std::hypot(t, 1.0);
    s = c * t;
  }
  void columns(Dense& x, int64_t p, int64_t q) const {
    for (int64_t i = 0; i < x.m; ++i) {
      const double a = x(i, p), b = x(i, q);
      x(i, p) = c * a - s * b;
      x(i, q) = s * a + c * b;
    }
  }
  double c, s;
};

std::vector<int64_t> sorted(const std::vector<double>& keys, bool descending) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const double x = keys[static_cast<size_t>(a)], y = keys[static_cast<size_t>(b)];
    return descending ? x > y : x < y;
  });
  return order;
}

constexpr int sweeps = 60;

HostArray eigh(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const Shape& shape = in[0]->shape;
  const int64_t n = shape.dim(-1);
  for (int64_t b = 0; b < linalg::batch_count(shape); ++b) {
    Dense a = matrix_of(*in[0], b), v = unit(n, n);
    double norm = 0;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) a(j, i) = a(i, j);
    }
    for (double x : a.v) norm += x * x;
    norm = std::sqrt(norm);
    bool done = n < 2 || norm == 0;
    for (int sweep = 0; !done && sweep < sweeps; ++sweep) {
      done = std::isfinite(norm);
      for (int64_t p = 0; p < n; ++p) {
        for (int64_t q = p + 1; q < n; ++q) {
          if (!(std::abs(a(p, q)) > 1e-17 * norm)) continue;
          done = done && std::abs(a(p, q)) < 1e-14 * norm;
          const Rotation turn(a(p, p), a(q, q), a(p, q));
          turn.columns(a, p, q);
          a = turned(std::move(a));
          turn.columns(a, p, q);
          a = turned(std::move(a));
          turn.columns(v, p, q);
        }
      }
    }
    std::vector<double> w(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i) w[static_cast<size_t>(i)] = a(i, i);
    const std::vector<int64_t> order = sorted(w, false);
    double* pack = out.floats.data() + b * node.shape.dim(-1);
    for (int64_t j = 0; j < n; ++j) {
      const int64_t from = order[static_cast<size_t>(j)];
      for (int64_t i = 0; i < n; ++i) pack[i * n + j] = v(i, from);
      pack[n * n + j] = w[static_cast<size_t>(from)];
    }
    pack[n * n + n] = done ? 0 : 1;
  }
  return out;
}

struct Singular {
  Dense u, vt;
  std::vector<double> s;
  bool done;
};

Singular singular(Dense w) {
  if (w.m < w.n) {
    Singular made = singular(turned(std::move(w)));
    return {turned(std::move(made.vt)), turned(std::move(made.u)), std::move(made.s), made.done};
  }
  const int64_t m = w.m, n = w.n;
  Dense v = unit(n, n);
  const auto dot = [&](int64_t p, int64_t q) {
    double total = 0;
    for (int64_t i = 0; i < m; ++i) total += w(i, p) * w(i, q);
    return total;
  };
  bool done = n < 2;
  for (int sweep = 0; !done && sweep < sweeps; ++sweep) {
    done = true;
    for (int64_t p = 0; p < n; ++p) {
      for (int64_t q = p + 1; q < n; ++q) {
        const double app = dot(p, p), aqq = dot(q, q), apq = dot(p, q), scale = std::sqrt(app) * std::sqrt(aqq);
        done = done && (scale == 0 || std::abs(apq) <= 1e-13 * scale);
        if (!(std::abs(apq) > 1e-17 * scale)) continue;
        const Rotation turn(app, aqq, apq);
        turn.columns(w, p, q);
        turn.columns(v, p, q);
      }
    }
  }
  std::vector<double> sizes(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) sizes[static_cast<size_t>(j)] = std::sqrt(dot(j, j));
  const std::vector<int64_t> order = sorted(sizes, true);
  Singular made{Dense(m, n), Dense(n, n), std::vector<double>(static_cast<size_t>(n)), done};
  for (int64_t j = 0; j < n; ++j) {
    const int64_t from = order[static_cast<size_t>(j)];
    const double size = sizes[static_cast<size_t>(from)];
    made.s[static_cast<size_t>(j)] = size;
    for (int64_t i = 0; i < m; ++i) made.u(i, j) = size > 0 ? w(i, from) / size : 0;
    for (int64_t i = 0; i < n; ++i) made.vt(j, i) = v(i, from);
  }
  Dense r = made.u;
  made.u = householder(r, n);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; r(j, j) < 0 && i < m; ++i) made.u(i, j) = -made.u(i, j);
  }
  return made;
}

HostArray svd(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const Shape& shape = in[0]->shape;
  for (int64_t b = 0; b < linalg::batch_count(shape); ++b) {
    const Singular made = singular(matrix_of(*in[0], b));
    auto to = out.floats.begin() + b * node.shape.dim(-1);
    to = std::copy(made.u.v.begin(), made.u.v.end(), to);
    to = std::copy(made.s.begin(), made.s.end(), to);
    to = std::copy(made.vt.v.begin(), made.vt.v.end(), to);
    *to = made.done ? 0 : 1;
  }
  return out;
}

// ---- the kernel, step by step as shaders/jacobi.hk says

HostArray rotate(const Node& node, Inputs in) {
  HostArray out = *in[0];
  const auto& ints = node.attrs.ints;
  const bool symmetric = ints[0] != 0;
  const int64_t n = ints[1];
  for (int64_t b = 0; b < node.shape[0]; ++b) {
    double *w = out.floats.data() + b * node.shape[1], *v = w + n * n, &worst = v[n * n], &done = v[n * n + 1];
    const double* left = symmetric ? v : w;
    const auto dot = [n](const double* x, const double* y) { return std::inner_product(x, x + n, y, 0.0); };
    int64_t p = ints[3], q = ints[4];
    for (int64_t c = 0; done == 0 && c < ints[2]; ++c) {
      const double app = dot(left + p * n, w + p * n), aqq = dot(left + q * n, w + q * n),
                   apq = dot(left + p * n, w + q * n);
      const double scale = symmetric ? 1 : std::sqrt(app) * std::sqrt(aqq),
                   measure = scale == 0 ? 0 : std::abs(apq) / scale;
      if (!std::isnan(worst) && !(measure <= worst)) worst = measure;
      if (measure > 1e-17) {
        const Rotation turn(app, aqq, apq);
        for (double* x : {w, v}) {
          for (int64_t i = 0; i < n; ++i) {
            const double a = x[p * n + i], d = x[q * n + i];
            x[p * n + i] = turn.c * a - turn.s * d;
            x[q * n + i] = turn.s * a + turn.c * d;
          }
        }
      }
      if (++q < n) continue;
      q = ++p + 1;
      if (q < n) continue;
      p = 0;
      q = 1;
      done = worst <= 1e-13 ? 1 : 0;
      worst = 0;
    }
  }
  return out;
}

}  // namespace

HostArray spectral(const Node& node, Inputs in) {
  if (node.op == &ops::qr_op) return qr(node, in);
  if (node.op == &linalg::rotate_op) return rotate(node, in);
  return node.op == &ops::eigh_op ? eigh(node, in) : svd(node, in);
}

}  // namespace heddle::reference
