// The op cases of linear algebra. Matrices are made well conditioned, so that a tolerance of sums will do.
#include <fmt/format.h>

#include <functional>

#include "checks/op_cases.h"
#include "heddle/core/functions/linalg/matrix.h"

namespace heddle::checks {
namespace {

using In = std::span<const Tensor>;

InputSpec unit_range(const Shape& shape, DType t = DType::f32, Layout layout = Layout::dense) {
  return {shape, t, -1, 1, layout, false};
}

Tensor identity(const Tensor& a) { return eye(a.dim(-1), a.dim(-1), a.dtype(), &a.device()); }
// Symmetric positive definite, with eigenvalues from 1 to about n.
Tensor definite(const Tensor& a) {
  return matmul(a, transpose(a)) * (1.0 / static_cast<double>(std::max<int64_t>(1, a.dim(-1)))) + identity(a);
}
// Its rows are not in the order that pivots want.
Tensor mixed(const Tensor& a) { return flip(a + identity(a) * 3.0, {-2}); }

class LinalgTable {
 public:
  explicit LinalgTable(std::vector<OpCase>& cases) : cases_(cases) {}

  OpCase& add(std::string_view op, std::string_view form, std::vector<InputSpec> inputs, std::function<Tensor(In)> f) {
    OpCase c;
    c.op = op;
    c.name = fmt::format("{} {}", op, form);
    for (const InputSpec& i : inputs)
      c.name += fmt::format(" {} {}/{}", name_of(i.dtype), i.shape.str(), static_cast<int>(i.layout));
    c.inputs = std::move(inputs);
    c.build = [f = std::move(f)](DeviceContext&, In in) { return f(in); };
    cases_.push_back(std::move(c));
    return cases_.back();
  }

 private:
  std::vector<OpCase>& cases_;
};

const Shape squares[] = {{1, 1}, {3, 3}, {2, 5, 5}, {17, 17}, {33, 33}, {0, 4, 4}, {3, 0, 0}};

void add_systems(LinalgTable& table) {
  for (const Shape& s : squares) {
    table.add("cholesky", "", {unit_range(s)}, [](In t) { return cholesky(definite(t[0])); });
    table.add("lu", "", {unit_range(s)}, [](In t) { return lu_factor(mixed(t[0])).factors; });
    table.add("det", "", {unit_range(s)}, [](In t) { return det(mixed(t[0]) * 0.3); }).extra = s[0] == 33;
    table.add("linear_solve", "", {unit_range(s), unit_range(s)}, [](In t) { return solve(mixed(t[0]), t[1]); });
  }
  table.add("cholesky", "upper", {unit_range({2, 9, 9}, DType::f32, Layout::transposed)},
            [](In t) { return cholesky(definite(t[0]), true); });
  table.add("cholesky", "half", {unit_range({5, 5}, DType::f16)}, [](In t) { return cholesky(definite(t[0])); });
  table.add("cholesky", "wide", {unit_range({40, 40}, DType::f64)}, [](In t) { return cholesky(definite(t[0])); });
  table.add("cholesky", "several blocks", {unit_range({150, 150})}, [](In t) { return cholesky(definite(t[0])); });
  table.add("lu", "tall", {unit_range({2, 11, 5})}, [](In t) { return lu_factor(t[0]).factors; });
  table.add("lu", "wide", {unit_range({2, 5, 11}, DType::f32, Layout::strided)},
            [](In t) { return lu_factor(t[0]).factors; });
  table.add("lu", "f64", {unit_range({40, 40}, DType::f64)}, [](In t) { return lu_factor(mixed(t[0])).factors; });
  table.add("lu", "permutation", {unit_range({3, 12, 12})}, [](In t) { return lu_factor(t[0]).permutation; })
      .differentiable = false;
  table.add("linear_solve", "right, strided",
            {unit_range({6, 6}, DType::f32, Layout::flipped), unit_range({2, 3, 6}, DType::f32, Layout::strided)},
            [](In t) { return solve(mixed(t[0]), t[1], false); });
  table.add("linear_solve", "vectors", {unit_range({2, 6, 6}), unit_range({2, 6})},
            [](In t) { return solve(mixed(t[0]), t[1]); });
  table.add("linear_solve", "half", {unit_range({6, 6}, DType::bf16), unit_range({6, 2}, DType::bf16)},
            [](In t) { return solve(mixed(t[0]), t[1]); });
  table.add("linear_solve", "wide", {unit_range({20, 20}, DType::f64), unit_range({20, 3}, DType::f64)},
            [](In t) { return solve(mixed(t[0]), t[1]); });
  table.add("linear_solve", "several blocks", {unit_range({140, 140}), unit_range({140, 3})},
            [](In t) { return solve(mixed(t[0]) + identity(t[0]) * 20.0, t[1]); });
  for (int form = 0; form < 16; ++form) {
    const TriangularOptions how{(form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0};
    const Shape right = how.left ? Shape{2, 7, 3} : Shape{2, 3, 7};
    table.add("solve_triangular", fmt::format("form {}", form), {unit_range({7, 7}), unit_range(right)},
              [how](In t) { return solve_triangular(t[0] + identity(t[0]) * 3.0, t[1], how); });
  }
  table.add("solve_triangular", "wide", {unit_range({9, 9}, DType::f64), unit_range({9, 4}, DType::f64)},
            [](In t) { return solve_triangular(t[0] + identity(t[0]) * 3.0, t[1]); });
  table.add("solve_triangular", "several blocks", {unit_range({150, 150}), unit_range({150, 40})},
            [](In t) { return solve_triangular(t[0] * 0.1 + identity(t[0]) * 3.0, t[1], {.upper = true}); });
  table.add("solve_triangular", "several blocks", {unit_range({150, 150}), unit_range({150, 1})},
            [](In t) { return solve_triangular(t[0] * 0.1 + identity(t[0]) * 3.0, t[1]); });
  table.add("solve_triangular", "no columns", {unit_range({4, 4}), unit_range({4, 0})},
            [](In t) { return solve_triangular(t[0], t[1]); });
}

// The sum of a constant and x: what looks for a row behind a result finds none, where two implementations may choose
// other signs.
Tensor apart(const Tensor& x) { return full_like(x, 0) + x; }
Tensor symmetric(const Tensor& a) { return a + transpose(a); }
// U diag(f) V^T.
Tensor composed(const Tensor& u, const Tensor& f, const Tensor& vt) { return matmul(u * unsqueeze(f, -2), vt); }

void add_spectra(LinalgTable& table) {
  for (const Shape& s :
       {Shape{1, 1}, Shape{2, 5, 5}, Shape{17, 17}, Shape{2, 9, 4}, Shape{4, 9}, Shape{0, 3, 3}, Shape{3, 0}}) {
    table.add("qr", "q", {unit_range(s)}, [](In t) { return qr(t[0]).q; });
    table.add("qr", "r", {unit_range(s)}, [](In t) { return qr(t[0], QRMode::r).r; }).extra = s[0] == 17;
    table.add("svd", "", {unit_range(s)}, [](In t) {
      const SVD f = svd(t[0], false);
      return apart(composed(f.u, sin(f.s), f.vh));
    });
    table.add("svd", "values", {unit_range(s)}, [](In t) { return apart(svdvals(t[0])); }).extra = s[0] == 17;
  }
  table
      .add("qr", "complete", {unit_range({2, 7, 3}, DType::f32, Layout::strided)},
           [](In t) { return qr(t[0], QRMode::complete).q; })
      .differentiable = false;
  table.add("qr", "wide", {unit_range({30, 20}, DType::f64)}, [](In t) { return qr(t[0]).q; });
  table.add("svd", "wide", {unit_range({14, 14}, DType::f64)}, [](In t) { return apart(svdvals(t[0])); });
  for (const Shape& s : {Shape{1, 1}, Shape{2, 5, 5}, Shape{33, 33}, Shape{0, 3, 3}, Shape{0, 0}}) {
    table.add("eigh", "", {unit_range(s)}, [](In t) {
      const Eigh f = eigh(symmetric(t[0]));
      return apart(composed(f.vectors, sin(f.values), transpose(f.vectors)));
    });
  }
  table.add("eigh", "upper, half", {unit_range({6, 6}, DType::f16)}, [](In t) { return apart(eigvalsh(t[0], true)); });
  table.add("eigh", "wide", {unit_range({14, 14}, DType::f64, Layout::transposed)},
            [](In t) { return apart(eigvalsh(t[0])); });
}

}  // namespace

void add_linalg_cases(std::vector<OpCase>& cases) {
  LinalgTable table(cases);
  add_systems(table);
  add_spectra(table);
}

}  // namespace heddle::checks
