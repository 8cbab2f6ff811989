// References of the kernels of reflections, in double precision, step by step as shaders/qr.hk, tridiagonal.hk and
// bidiagonal.hk say; what a matrix lacks is subtracted at once, and kept only for the next launch to find.
#include <cmath>
#include <vector>

#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle::reference {
namespace {

// Makes x (0 up to `start`) the vector whose reflection leaves beta at `start`.
struct Reflection {
  Reflection(std::vector<double>& x, int64_t start) {
    const auto at = static_cast<size_t>(start);
    if (at >= x.size()) return;
    double below = 0, alpha = x[at];
    for (size_t i = at + 1; i < x.size(); ++i) below += x[i] * x[i];
    beta = alpha;
    x[at] = 1;
    if (below == 0) {
      for (size_t i = at + 1; i < x.size(); ++i) x[i] = 0;
      return;
    }
    const double norm = std::sqrt(alpha * alpha + below);
    beta = alpha > 0 ? -norm : norm;
    tau = (beta - alpha) / beta;
    for (size_t i = at + 1; i < x.size(); ++i) x[i] /= alpha - beta;
  }
  double beta = 0, tau = 0;
};

HostArray qr_panel(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const HostArray& a = *in[0];
  const int64_t m = a.shape[1], n = a.shape[2], width = node.attrs.ints[0];
  for (int64_t b = 0; b < a.shape[0]; ++b) {
    double *r = out.floats.data() + b * node.shape[1], *t = r + width * width, *y = t + width * width;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) y[i * width + j] = a.floats[static_cast<size_t>((b * m + i) * n + j)];
    }
    for (int64_t k = 0; k < n; ++k) {
      std::vector<double> v(static_cast<size_t>(m)), dots(static_cast<size_t>(width));
      for (int64_t i = k; i < m; ++i) v[static_cast<size_t>(i)] = y[i * width + k];
      const Reflection made(v, k);
      for (int64_t i = 0; i < k; ++i) r[i * width + k] = y[i * width + k];
      r[k * width + k] = made.beta;
      for (int64_t i = 0; i < m; ++i) y[i * width + k] = v[static_cast<size_t>(i)];
      for (int64_t j = 0; j < n; ++j) {
        double& dot = dots[static_cast<size_t>(j)];
        for (int64_t i = k; i < m; ++i) dot += v[static_cast<size_t>(i)] * y[i * width + j];
        for (int64_t i = k; j > k && i < m; ++i) y[i * width + j] -= made.tau * dot * v[static_cast<size_t>(i)];
      }
      t[k * width + k] = made.tau;
      for (int64_t l = 0; l < k; ++l) {
        for (int64_t s = 0; s < k; ++s) t[k * width + l] -= made.tau * dots[static_cast<size_t>(s)] * t[s * width + l];
      }
    }
  }
  return out;
}

// A matrix of a state, what it lacks subtracted: u y^T + z v^T (u null: nothing).
struct Lacking {
  double *x, *u, *y, *z, *v;
  int64_t n, pitch;
  void subtract(int64_t first) const {
    for (int64_t i = first; u != nullptr && i < n; ++i) {
      for (int64_t j = first; j < n; ++j) x[i * pitch + j] -= u[i] * y[j] + z[i] * v[j];
    }
  }
};

HostArray tridiagonal(const Node& node, Inputs in) {
  HostArray out = *in[0];
  const int64_t n = node.attrs.ints[0], pitch = node.shape[2];
  for (int64_t b = 0; b < node.shape[0]; ++b) {
    double *x = out.floats.data() + b * node.shape[1] * pitch, *d = x + n * pitch, *w = d + 3 * pitch;
    for (int64_t k = node.attrs.ints[1]; k < node.attrs.ints[2]; ++k) {
      double* before = k > 0 ? x + (k - 1) * pitch : nullptr;
      Lacking{x, before, w, w, before, n, pitch}.subtract(k);
      std::vector<double> u(static_cast<size_t>(n)), p(static_cast<size_t>(n));
      d[k] = x[k * pitch + k];
      for (int64_t j = k + 1; j < n; ++j) u[static_cast<size_t>(j)] = x[k * pitch + j];
      const Reflection made(u, k + 1);
      d[pitch + k] = made.beta;
      d[2 * pitch + k] = made.tau;
      double dot = 0;
      for (int64_t i = k + 1; i < n; ++i) {
        for (int64_t j = k + 1; j < n; ++j)
          p[static_cast<size_t>(i)] += made.tau * x[i * pitch + j] * u[static_cast<size_t>(j)];
        dot += p[static_cast<size_t>(i)] * u[static_cast<size_t>(i)];
      }
      for (int64_t j = 0; j < n; ++j) {
        x[k * pitch + j] = u[static_cast<size_t>(j)];
        w[j] = p[static_cast<size_t>(j)] - 0.5 * made.tau * dot * u[static_cast<size_t>(j)];
      }
    }
  }
  return out;
}

HostArray bidiagonal(const Node& node, Inputs in) {
  HostArray out = *in[0];
  const int64_t n = node.attrs.ints[0], pitch = node.shape[2];
  for (int64_t b = 0; b < node.shape[0]; ++b) {
    double *x = out.floats.data() + b * node.shape[1] * pitch, *left = x + n * pitch, *d = left + n * pitch,
           *y = d + 4 * pitch, *z = y + pitch;
    for (int64_t k = node.attrs.ints[1]; k < node.attrs.ints[2]; ++k) {
      Lacking{x, k > 0 ? left + (k - 1) * pitch : nullptr, y, z, x + (k > 0 ? k - 1 : 0) * pitch, n, pitch}.subtract(k);
      std::vector<double> u(static_cast<size_t>(n)), v(static_cast<size_t>(n));
      for (int64_t i = k; i < n; ++i) u[static_cast<size_t>(i)] = x[i * pitch + k];
      const Reflection from_left(u, k);
      d[k] = from_left.beta;
      d[2 * pitch + k] = from_left.tau;
      double dot = 0;
      for (int64_t j = 0; j < n; ++j) {
        y[j] = 0;
        for (int64_t i = k; j > k && i < n; ++i) y[j] += from_left.tau * u[static_cast<size_t>(i)] * x[i * pitch + j];
        left[k * pitch + j] = u[static_cast<size_t>(j)];
        if (j > k) v[static_cast<size_t>(j)] = x[k * pitch + j] - y[j];
      }
      const Reflection from_right(v, k + 1);
      d[pitch + k] = from_right.beta;
      d[3 * pitch + k] = from_right.tau;
      for (int64_t j = 0; j < n; ++j) dot += y[j] * v[static_cast<size_t>(j)];
      for (int64_t i = 0; i < n; ++i) {
        double product = -u[static_cast<size_t>(i)] * dot;
        for (int64_t j = k + 1; j < n; ++j) product += x[i * pitch + j] * v[static_cast<size_t>(j)];
        z[i] = i > k ? from_right.tau * product : 0;
      }
      for (int64_t j = 0; j < n; ++j) x[k * pitch + j] = v[static_cast<size_t>(j)];
    }
  }
  return out;
}

}  // namespace

HostArray condensing(const Node& node, Inputs in) {
  if (node.op == &linalg::qr_panel_op) return qr_panel(node, in);
  return node.op == &linalg::tridiagonal_op ? tridiagonal(node, in) : bidiagonal(node, in);
}

}  // namespace heddle::reference
