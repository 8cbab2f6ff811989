// Convolutions and their gradients: shaders/conv.hk and shaders/conv_weight_grad.hk with the group's elementwise work
// as epilogue.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/ir/conv_problem.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/lower/body_lowering.h"
#include "heddle/core/lower/lower_elementwise.h"
#include "heddle/core/lower/operand.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/tiles/conv_cpu_tiles.h"

namespace heddle {
namespace {

bool none_negative(const View& view) {
  return std::all_of(view.strides.begin(), view.strides.begin() + view.shape.rank(), [](int64_t s) { return s >= 0; });
}

class ConvLowering {
 public:
  explicit ConvLowering(const LowerInput& in)
      : in_(in),
        node_(in.scheduled.graph.nodes[in.group.anchor]),
        p_(conv_problem(in.scheduled.graph, node_)),
        weight_grad_(p_.kind == ConvProblem::Kind::weight_grad),
        file_(KernelFile::builtin(weight_grad_ ? "conv_weight_grad" : "conv")),
        e_(in.scheduled, in.group, file_.constants.size()) {
    a_ = resolve_operand(in.scheduled, in.group, node_.inputs[0], "x");
    b_ = resolve_operand(in.scheduled, in.group, node_.inputs[1], "x");
    p_.x = a_.dtype;
    p_.w = b_.dtype;
  }

  LoweredKernel run() {
    const Bindings constants = weight_grad_ ? weight_gradient() : convolution();
    KernelFile::Options options;
    options.types = {{"TX", p_.x},
                     {"TW", p_.w},
                     {"TY", DType::f32},
                     {"ACC", arith(node_.dtype) == DType::f64 ? DType::f64 : DType::f32}};
    options.hooks["EPILOGUE"] = print_epilogue(e_, in_, "x", blocks());
    options.extra_buffers = e_.buffers();
    options.extra_constants = e_.constant_params();
    options.dropped_buffers = {"dst"};
    const ConvProblem picked = nominal_problem();
    options.tunables = weight_grad_ ? pick_conv_weight_grad(in_.caps, picked) : pick_conv(in_.caps, picked);

    LoweredKernel kernel;
    kernel.source = file_.instantiate(options);
    // The name says which algorithm was chosen: it stands in dumps and in lists of device times.
    kernel.source.name = e_.kernel_name() + "_" + conv_algorithm(options.tunables);
    kernel.source.helpers = e_.helpers() + kernel.source.helpers;
    kernel.bindings = {a_.slot, b_.slot};
    kernel.bindings.insert(kernel.bindings.end(), e_.slots().begin(), e_.slots().end());
    for (const ConstParam& c : file_.constants)
      kernel.constants.push_back(static_cast<uint32_t>(static_cast<int32_t>(constants.at(c.name))));
    kernel.constants.insert(kernel.constants.end(), e_.constant_values().begin(), e_.constant_values().end());
    const auto groups = file_.groups(options.tunables, constants);
    std::copy(groups.begin(), groups.end(), kernel.groups);
    kernel.loop_iterations = conv_loop_iterations(p_, options.tunables);
    return kernel;
  }

 private:
  // What a schedule is picked for: sizes that vary have others in their place. Maps of many channels are small ones.
  ConvProblem nominal_problem() const {
    ConvProblem p = p_;
    p.sized = true;
    const IrNode& x = in_.scheduled.graph.nodes[node_.inputs[0]];
    if (dimension_varies(x, 0)) p.N = nominal_batch;
    if (weight_grad_ || p.parts > 1) return p;  // sizes of a sum in parts do not vary
    const int rank = ConvAttrs(node_.attrs).rank(), first = p_.last ? 1 : 2;
    const int64_t size = std::clamp<int64_t>(4096 / (p.G * std::max(p.CG, p.OG)), 16, nominal_size);
    const bool forward = p.kind == ConvProblem::Kind::forward;
    ConvProblem whole = conv_problem(in_.scheduled.graph, node_);
    const bool merged = (turned_ ? turned(whole.in) : whole.in) != p.in;
    for (int i = 0; i < rank; ++i) {
      if (!dimension_varies(x, first + i) && !dimension_varies(node_, first + i)) continue;
      const auto d = static_cast<size_t>(3 - rank + i);
      p.sized = false;
      whole.in[d] = forward ? size * whole.stride[d] : size;
      whole.out[d] = forward ? size : size * whole.stride[d];
    }
    if (turned_) turn_sizes(whole);
    if (merged) whole.in = whole.out = {1, 1, whole.in[0] * whole.in[1] * whole.in[2]};
    p.in = whole.in;
    p.out = whole.out;
    return p;
  }

  std::vector<EpilogueBlock> blocks() const {
    const int rank = ConvAttrs(node_.attrs).rank();
    if (weight_grad_) return {{node_.shape.rank() - rank - 2, "run"}, {1, "och"}, {1, "ich"}, {rank, "tap"}};
    const int images = node_.shape.rank() - rank - 1;  // with parts: run * N + image
    if (p_.last) return {{images, "im"}, {rank, "at"}, {1, "ch"}};
    return {{images, "im"}, {1, "ch"}, {rank, "at"}};
  }

  Bindings convolution() {
    ConvImages x = conv_images(a_.view, p_.last);
    ConvWeights w;
    const ConvImages view = conv_images(b_.view, false);  // (O, C / groups, kernel...): the same arrangement
    const bool forward = p_.kind == ConvProblem::Kind::forward;
    w.offset = view.offset;
    w.o = forward ? view.n : view.c;
    w.c = forward ? view.c : view.n;
    w.group = view.n * (forward ? p_.OG : p_.CG);
    w.space = view.space;
    turn(x, w);
    merge_positions(x);
    if (in_.caps.machine() == Machine::cpu_loops) turn_kernels(w);
    p_.x_w1 = (p_.in[2] == 1 || x.space[2] == 1) && none_negative(a_.view);
    describe_weights(w);
    return conv_constants(p_, x, w);
  }

  static Extent3 turned(const Extent3& e) { return {e[2], e[0], e[1]}; }
  static void turn_sizes(ConvProblem& p) {
    for (Extent3* e : {&p.in, &p.out, &p.kernel, &p.stride, &p.dilation, &p.pad}) *e = turned(*e);
  }

  // A signal that lies along the height of images of width 1: schedules look for neighbours along the width.
  void turn(ConvImages& x, ConvWeights& w) {
    turned_ = p_.in[2] == 1 && p_.out[2] == 1 && p_.kernel[2] == 1 && p_.pad[2] == 0 && p_.in[1] > 1;
    if (!turned_) return;
    turn_sizes(p_);
    x.space = turned(x.space);
    w.space = turned(w.space);
  }

  // A kernel of one position reads images whose rows follow without gaps as one long row.
  void merge_positions(ConvImages& x) {
    if (!meets_one_by_one(p_)) return;
    for (size_t d = 2; d-- > 0;) {
      if (p_.in[d] == 1) continue;
      if (p_.in[2] != 1 && x.space[d] != x.space[2] * p_.in[2]) return;
      if (p_.in[2] == 1) x.space[2] = x.space[d];
      p_.in[2] *= p_.in[d];
      p_.in[d] = 1;
      p_.out = p_.in;
    }
  }

  // An input gradient without strides is a convolution with its kernels turned around. Schedules of few channels of dst
  // and of kernels with one position are faster for these; the others take gradients as they are.
  void turn_kernels(ConvWeights& w) {
    if (p_.kind != ConvProblem::Kind::input_grad || p_.stride != Extent3{1, 1, 1}) return;
    if (p_.OG >= few_channels && conv_taps(p_) > 1) return;
    Extent3 pad;
    for (size_t d = 0; d < 3; ++d) {
      pad[d] = p_.dilation[d] * (p_.kernel[d] - 1) - p_.pad[d];
      if (pad[d] < 0) return;
    }
    p_.kind = ConvProblem::Kind::forward;
    p_.pad = pad;
    for (size_t d = 0; d < 3; ++d) {
      w.offset += w.space[d] * (p_.kernel[d] - 1);
      w.space[d] = p_.kernel[d] > 1 ? -w.space[d] : w.space[d];
    }
  }

  void describe_weights(const ConvWeights& w) {
    const Extent3 dense{p_.kernel[1] * p_.kernel[2], p_.kernel[2], 1};
    p_.w_k1 = w.o >= 0 && w.c >= 0 && w.group >= 0 && w.space[2] >= 0;
    for (size_t d = 0; d < 3; ++d) p_.w_k1 = p_.w_k1 && (p_.kernel[d] == 1 || w.space[d] == dense[d]);
    p_.w_c1 = p_.w_k1 && p_.kernel[0] == 1 && (p_.CG == 1 || w.c == p_.kernel[1] * p_.kernel[2]);
    p_.w_row = p_.w_c1 ? w.o : 0;
    p_.w_o1 = p_.w_k1 && !p_.w_c1 && conv_taps(p_) == 1 && w.o == 1 && w.c >= p_.OG && p_.OG >= 16;
  }

  bool any_size_varies() const {
    const IrNode& x = in_.scheduled.graph.nodes[node_.inputs[0]];
    const int rank = ConvAttrs(node_.attrs).rank(), first = p_.last ? 1 : 2;
    for (int i = 0; i < rank; ++i) {
      if (dimension_varies(x, first + i)) return true;
    }
    return false;
  }

  Bindings weight_gradient() {
    const ConvImages x = conv_images(a_.view, p_.last), g = conv_images(b_.view, p_.last);
    p_.x_w1 = (p_.in[2] == 1 || x.space[2] == 1) && none_negative(a_.view);
    p_.g_w1 = (p_.out[2] == 1 || g.space[2] == 1) && none_negative(b_.view);
    p_.flat =
        p_.x_w1 && p_.g_w1 && !any_size_varies() && meets_one_by_one(p_) && is_plane(x, p_.in) && is_plane(g, p_.out);
    return conv_weight_grad_constants(p_, x, g);
  }

  const LowerInput& in_;
  const IrNode& node_;
  ConvProblem p_;
  const bool weight_grad_;
  bool turned_ = false;  // depth, height and width are (1, depth, height) of the vertex
  const KernelFile& file_;
  Emitter e_;
  Operand a_, b_;
};

}  // namespace

LoweredKernel lower_conv(const LowerInput& in) { return ConvLowering(in).run(); }

}  // namespace heddle
