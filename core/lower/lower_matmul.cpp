// Matmul groups: shaders/matmul.hk with the group's elementwise work as its epilogue, and cheap unary functions of an
// operand as its prologue.
#include "heddle/core/lower/lower_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/ir/matmul_batch.h"
#include "heddle/core/lower/lower_elementwise.h"
#include "heddle/core/lower/operand.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/tiles/inexact.h"
#include "heddle/core/tiles/matmul_tiles.h"

namespace heddle {
namespace {

class MatmulLowering {
 public:
  explicit MatmulLowering(const LowerInput& in)
      : in_(in),
        node_(in.scheduled.graph.nodes[in.group.anchor]),
        file_(KernelFile::builtin("matmul")),
        e_(in.scheduled, in.group, file_.constants.size(), false, in.section) {
    a_ = resolve_operand(in.scheduled, in.group, node_.inputs[0], "x");
    b_ = resolve_operand(in.scheduled, in.group, node_.inputs[1], "x");
    if (in.section != nullptr) enter(*in.section);
    const int rank = node_.shape.rank();
    const Shape shape = within(in.section, node_.shape, 0);
    m_ = shape[rank - 2];
    n_ = shape[rank - 1];
    k_ = a_.view.shape[rank - 1];
    loops_ = matmul_batch(a_.view, b_.view);
    for (int d = 0; d < rank - 2; ++d) batch_ *= shape[d];
    fold_batch();
  }

  LoweredKernel run() {
    KernelFile::Options options;
    const DType accumulator = arith(node_.dtype);
    options.types = {{"TA", a_.dtype},
                     {"TB", b_.dtype},
                     {"TC", DType::f32},
                     {"ACC", accumulator == DType::f32 ? DType::f32 : accumulator}};
    options.hooks["EPILOGUE"] = epilogue();
    if (a_.function != "x") options.hooks["PROLOGUE_A"] = a_.function;
    if (b_.function != "x") options.hooks["PROLOGUE_B"] = b_.function;
    options.extra_buffers = e_.buffers();
    options.extra_constants = e_.constant_params();
    options.dropped_buffers = {"dst"};

    const int rank = node_.shape.rank();
    const int64_t a_m = folded_ ? row_step_ : stride(a_, rank - 2), a_k = stride(a_, rank - 1),
                  b_k = stride(b_, rank - 2), b_n = stride(b_, rank - 1);
    MatmulProblem p = problem(batch_, a_m, a_k, b_k, b_n);
    p.a_wide =
        wide(a_, {a_.view.offset, loops_.a_strides[0], loops_.a_strides[1], a_m, a_k}, m_, k_, m_varies(), k_varies());
    p.b_wide =
        wide(b_, {b_.view.offset, loops_.b_strides[0], loops_.b_strides[1], b_k, b_n}, k_, n_, k_varies(), n_varies());
    options.tunables = pick_matmul(in_.caps, p);

    LoweredKernel kernel;
    kernel.source = file_.instantiate(options);
    kernel.source.name = e_.kernel_name();
    kernel.source.helpers = e_.helpers() + kernel.source.helpers;
    kernel.bindings = {a_.slot, b_.slot};
    kernel.bindings.insert(kernel.bindings.end(), e_.slots().begin(), e_.slots().end());
    const std::vector<int64_t> constants{m_,
                                         n_,
                                         k_,
                                         batch_,
                                         loops_.sizes[1],
                                         a_.view.offset,
                                         loops_.a_strides[0],
                                         loops_.a_strides[1],
                                         a_m,
                                         a_k,
                                         b_.view.offset,
                                         loops_.b_strides[0],
                                         loops_.b_strides[1],
                                         b_k,
                                         b_n};
    Bindings named;
    for (size_t i = 0; i < constants.size(); ++i) {
      named[file_.constants[i].name] = constants[i];
      kernel.constants.push_back(static_cast<uint32_t>(static_cast<int32_t>(constants[i])));
    }
    kernel.constants.insert(kernel.constants.end(), e_.constant_values().begin(), e_.constant_values().end());
    const auto groups = file_.groups(options.tunables, named);
    std::copy(groups.begin(), groups.end(), kernel.groups);
    kernel.loop_iterations = k_ + 256;  // 256: tails and the epilogue
    return kernel;
  }

 private:
  // The operands' rows and columns that belong to the section, from what is bound of them.
  void enter(const Section& section) {
    note_divisible(&section, node_.shape);
    const int rank = node_.shape.rank();
    std::vector<int> rows(static_cast<size_t>(rank), -1), columns = rows;
    for (int d = 0; d < rank - 1; ++d) rows[static_cast<size_t>(d)] = d;
    for (int d = 0; d < rank; ++d) columns[static_cast<size_t>(d)] = d == rank - 2 ? -1 : d;
    enter_operand(section, a_, rows);
    enter_operand(section, b_, columns);
  }

  // A dimension of size 1 is never stepped along: calling its stride 1 opens the fast paths.
  static int64_t stride(const Operand& operand, int axis) {
    return operand.view.shape[axis] == 1 ? 1 : operand.view.strides[static_cast<size_t>(axis)];
  }

  // ---- what varies (core/ir/dynamic_sizes.h)
  const IrNode& input(size_t i) const { return in_.scheduled.graph.nodes[node_.inputs[i]]; }
  bool batch_varies() const {
    for (int d = 0; d < node_.shape.rank() - 2; ++d) {
      if (dimension_varies(node_, d)) return true;
    }
    return false;
  }
  bool m_varies() const { return dimension_varies(node_, node_.shape.rank() - 2) || (folded_ && batch_varies()); }
  bool n_varies() const { return dimension_varies(node_, node_.shape.rank() - 1); }
  bool k_varies() const {
    return dimension_varies(input(0), node_.shape.rank() - 1) && dimension_varies(input(1), node_.shape.rank() - 2);
  }

  // A step between rows that is the length of one varies with that; others may vary with anything.
  int64_t wide(const Operand& operand, const MatmulStrides& s, int64_t rows, int64_t columns, bool rows_vary,
               bool columns_vary) const {
    if (e_.varying()) {
      const bool along_columns = s.second == 1;
      const int64_t step = along_columns ? s.first : s.second, length = along_columns ? columns : rows;
      if ((along_columns ? columns_vary : rows_vary) || step != length || s.batch1 != 0 || s.batch2 != 0 ||
          s.offset != 0)
        return 0;
    }
    return matmul_wide(operand.dtype, s, rows, columns);
  }

  MatmulProblem problem(int64_t batch, int64_t a_m, int64_t a_k, int64_t b_k, int64_t b_n) const {
    MatmulProblem p;
    p.M = m_varies() ? nominal_size : m_;
    p.N = n_varies() ? nominal_size : n_;
    p.K = k_varies() ? nominal_size : k_;
    p.batch = batch > 1 && batch_varies() ? nominal_batch : batch;
    p.a_m1 = a_m == 1;
    p.a_k1 = a_k == 1;
    p.b_k1 = b_k == 1;
    p.b_n1 = b_n == 1;
    p.a = a_.dtype;
    p.b = b_.dtype;
    p.a_value = in_.scheduled.graph.nodes[node_.inputs[0]].dtype;
    p.b_value = in_.scheduled.graph.nodes[node_.inputs[1]].dtype;
    p.tf32 = tf32_wanted();
    p.prologue_a = a_.function != "x";
    p.prologue_b = b_.function != "x";
    return p;
  }

  // One right operand for all batches, as in a linear layer over (B, T, C): rows that follow each other from batch to
  // batch are one matrix.
  void fold_batch() {
    const int rank = node_.shape.rank();
    if (batch_ == 1) return;
    // Of one row each the step from row to row is that of the batches.
    const int64_t row = m_ > 1                ? a_.view.strides[static_cast<size_t>(rank - 2)]
                        : loops_.sizes[1] > 1 ? loops_.a_strides[1]
                                              : loops_.a_strides[0];
    const bool shared = loops_.b_strides[0] == 0 && loops_.b_strides[1] == 0;
    const bool inner = loops_.sizes[1] == 1 || loops_.a_strides[1] == m_ * row;
    const bool outer = batch_ == loops_.sizes[1] || loops_.a_strides[0] == loops_.sizes[1] * m_ * row;
    if (!shared || !inner || !outer) return;
    m_ *= batch_;
    batch_ = 1;
    loops_ = {};
    folded_ = true;
    row_step_ = row;
  }

  std::string epilogue() {
    if (folded_) return print_epilogue(e_, in_, "x", {{node_.shape.rank() - 1, "m"}, {1, "n"}});
    return print_epilogue(e_, in_, "x", {{node_.shape.rank() - 2, "b"}, {1, "m"}, {1, "n"}});
  }

  const LowerInput& in_;
  const IrNode& node_;
  const KernelFile& file_;
  Emitter e_;
  Operand a_, b_;
  int64_t m_ = 0, n_ = 0, k_ = 0, batch_ = 1, row_step_ = 0;
  MatmulBatch loops_;
  bool folded_ = false;
};

}  // namespace

LoweredKernel lower_matmul(const LowerInput& in) { return MatmulLowering(in).run(); }

}  // namespace heddle
