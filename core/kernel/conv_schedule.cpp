#include "core/kernel/conv_schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/kernel/tuning.h"

namespace heddle {
namespace {

// Schedules of shaders/conv.hk and shaders/conv_weight_grad.hk.
constexpr int64_t lanes = 0, tiles = 1, packed = 2, registers = 3, rows = 4;

using Row = Bindings;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The smallest choice that is at least `value`, or the largest.
int64_t at_least(int64_t value, std::initializer_list<int64_t> choices) {
  for (int64_t c : choices) {
    if (c >= value) return c;
  }
  return *(choices.end() - 1);
}

constexpr const char* axes[] = {"D", "H", "W"};

void add_space(Bindings& values, const std::string& prefix, const Extent3& space) {
  for (size_t d = 0; d < 3; ++d) values[prefix + axes[d]] = space[d];
}

void add_images(Bindings& values, const std::string& prefix, const ConvImages& images) {
  values[prefix + "_OFF"] = images.offset;
  values[prefix + "_SN"] = images.n;
  values[prefix + "_SC"] = images.c;
  add_space(values, prefix + "_S", images.space);
}

Bindings sizes(const ConvProblem& p) {
  Bindings values{{"N", p.N}, {"G", p.G}, {"CG", p.CG}, {"OG", p.OG}};
  add_space(values, "I", p.in);
  add_space(values, "O", p.out);
  add_space(values, "P", p.pad);
  return values;
}

void add_facts(Bindings& values, const ConvProblem& p) {
  add_space(values, "K", p.kernel);
  add_space(values, "S", p.stride);
  add_space(values, "D", p.dilation);
  values["X_W1"] = p.x_w1;
}

}  // namespace

ConvWeights dense_weights(const ConvProblem& p) {
  const int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  ConvWeights w;
  w.space = {p.kernel[1] * p.kernel[2], p.kernel[2], 1};
  const bool forward = p.kind == ConvProblem::Kind::forward;
  const int64_t x_channels = forward ? p.CG : p.OG;
  w.o = forward ? x_channels * taps : taps;
  w.c = forward ? taps : x_channels * taps;
  w.group = p.CG * p.OG * taps;
  return w;
}

Bindings conv_constants(const ConvProblem& p, const ConvImages& x, const ConvWeights& w) {
  Bindings values = sizes(p);
  add_images(values, "X", x);
  values["W_OFF"] = w.offset;
  values["W_SG"] = w.group;
  values["W_SO"] = w.o;
  values["W_SC"] = w.c;
  add_space(values, "W_S", w.space);
  return values;
}

Bindings conv_weight_grad_constants(const ConvProblem& p, const ConvImages& x, const ConvImages& g) {
  Bindings values = sizes(p);
  add_images(values, "X", x);
  add_images(values, "G", g);
  values["PARTS"] = p.parts;
  return values;
}

Bindings pick_conv(const Caps&, const ConvProblem& p) {
  Row row{{"SCHEDULE", lanes}};
  add_facts(row, p);
  row["MODE"] = p.kind == ConvProblem::Kind::input_grad;
  row["LAST"] = p.last;
  row["W_K1"] = p.w_k1;
  row["W_C1"] = p.w_c1;
  return row;
}

Bindings pick_conv_weight_grad(const Caps&, const ConvProblem& p) {
  Row row{{"SCHEDULE", lanes}};
  add_facts(row, p);
  row["G_W1"] = p.g_w1;
  return row;
}

}  // namespace heddle
