// Shared by the tests of matmul.hk: problems with exact operands, and a triple loop that knows the answer.
#pragma once

#include "tests/kernels/kernel_test.h"

namespace heddle::test {

struct Operand {
  int64_t offset = 0, sb1 = 0, sb2 = 0, rows = 0, columns = 0;  // the last two: strides of the first and second index
  int64_t at(int64_t b1, int64_t b2, int64_t i, int64_t j) const {
    return offset + b1 * sb1 + b2 * sb2 + i * rows + j * columns;
  }
};

struct Problem {
  int64_t m, n, k;
  int64_t b1 = 1, b2 = 1;
  Operand a, b;
  size_t a_size = 1, b_size = 1;
};

// Dense operands; a letter T means that the operand lies transposed.
inline Problem dense(const char* form, int64_t m, int64_t n, int64_t k, int64_t b1 = 1, int64_t b2 = 1) {
  Problem p{m, n, k, b1, b2};
  p.a = {0, b2 * m * k, m * k, form[0] == 'T' ? 1 : k, form[0] == 'T' ? m : 1};
  p.b = {0, b2 * k * n, k * n, form[1] == 'T' ? 1 : n, form[1] == 'T' ? k : 1};
  p.a_size = static_cast<size_t>(b1 * b2 * m * k);
  p.b_size = static_cast<size_t>(b1 * b2 * k * n);
  return p;
}

struct Types {
  DType a = DType::f32, b = DType::f32, c = DType::f32, acc = DType::f32;
};

class MatmulCase : public KernelTest {
 protected:
  const KernelFile& file_ = KernelFile::builtin("matmul");

  KernelRun prepare(const Problem& p, const Types& types) const {
    KernelRun run;
    run.arrays["lhs"] = KernelArray::of(types.a, quarters(p.a_size, 1));
    run.arrays["rhs"] = KernelArray::of(types.b, quarters(p.b_size, 2));
    run.arrays["dst"] = KernelArray::of(types.c, std::vector<double>(static_cast<size_t>(p.b1 * p.b2 * p.m * p.n), 77));
    const auto number = [](int64_t x) { return static_cast<double>(x); };
    run.constants = {{"M", number(p.m)},
                     {"N", number(p.n)},
                     {"K", number(p.k)},
                     {"BATCH", number(p.b1 * p.b2)},
                     {"B2", number(p.b2)},
                     {"A_OFF", number(p.a.offset)},
                     {"A_SB1", number(p.a.sb1)},
                     {"A_SB2", number(p.a.sb2)},
                     {"A_SM", number(p.a.rows)},
                     {"A_SK", number(p.a.columns)},
                     {"B_OFF", number(p.b.offset)},
                     {"B_SB1", number(p.b.sb1)},
                     {"B_SB2", number(p.b.sb2)},
                     {"B_SK", number(p.b.rows)},
                     {"B_SN", number(p.b.columns)}};
    return run;
  }

  static KernelFile::Options options(const Bindings& tunables, const Problem& p, const Types& types) {
    KernelFile::Options o;
    o.tunables = tunables;
    o.tunables["A_M1"] = p.a.rows == 1;
    o.tunables["A_K1"] = p.a.columns == 1;
    o.tunables["B_K1"] = p.b.rows == 1;
    o.tunables["B_N1"] = p.b.columns == 1;
    o.types = {{"TA", types.a}, {"TB", types.b}, {"TC", types.c}, {"ACC", types.acc}};
    return o;
  }

  // Sums are exact, so the only rounding is that of the result's type.
  template <class A, class B, class Finish>
  std::vector<double> expected(const Problem& p, const KernelRun& run, A a_hook, B b_hook, Finish finish) const {
    const KernelArray& a = run.arrays.at("lhs");
    const KernelArray& b = run.arrays.at("rhs");
    std::vector<double> result;
    for (int64_t b1 = 0; b1 < p.b1; ++b1) {
      for (int64_t b2 = 0; b2 < p.b2; ++b2) {
        for (int64_t m = 0; m < p.m; ++m) {
          for (int64_t n = 0; n < p.n; ++n) {
            double sum = 0;
            for (int64_t k = 0; k < p.k; ++k) {
              sum += a_hook(a[static_cast<size_t>(p.a.at(b1, b2, m, k))]) *
                     b_hook(b[static_cast<size_t>(p.b.at(b1, b2, k, n))]);
            }
            result.push_back(finish(sum, m, n));
          }
        }
      }
    }
    return result;
  }

  void check(const Bindings& tunables, const Problem& p, const Types& types = {}) {
    const KernelRun r = prepare(p, types);
    const auto same = [](double x) { return x; };
    const KernelArray want =
        KernelArray::of(types.c, expected(p, r, same, same, [](double x, int64_t, int64_t) { return x; }));
    const KernelOutcome got = run(file_, options(tunables, p, types), r);
    EXPECT_EQ(got.arrays.at("dst").values(), want.values()) << p.m << "x" << p.n << "x" << p.k;
  }

  // Sizes around the tiles' edges, none at all along k, one in each dimension.
  void check_sizes(const Bindings& tunables, const char* form, const Types& types = {}) {
    const int64_t sizes[][3] = {{1, 1, 1},  {5, 7, 0},  {3, 5, 7},    {17, 33, 65},
                                {1, 40, 9}, {40, 1, 9}, {32, 64, 16}, {13, 70, 131}};
    for (const auto& s : sizes) check(tunables, dense(form, s[0], s[1], s[2]), types);
    check(tunables, dense(form, 9, 19, 6, 2, 3), types);
  }
};

}  // namespace heddle::test
