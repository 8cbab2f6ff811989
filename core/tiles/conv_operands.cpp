#include "heddle/core/tiles/conv_operands.h"

#include <algorithm>
#include <string>

namespace heddle {
namespace {

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

}  // namespace

bool meets_one_by_one(const ConvProblem& p) {
  const Extent3 ones{1, 1, 1};
  return p.kernel == ones && p.stride == ones && p.pad == Extent3{0, 0, 0} && p.in == p.out;
}

bool is_plane(const ConvImages& images, const Extent3& size) {
  int64_t step = 1;
  for (size_t d = 3; d-- > 0; step *= size[d]) {
    if (size[d] > 1 && images.space[d] != step) return false;
  }
  return true;
}

void add_conv_facts(Bindings& values, const ConvProblem& p) {
  add_space(values, "K", p.kernel);
  add_space(values, "S", p.stride);
  add_space(values, "D", p.dilation);
  values["X_W1"] = p.x_w1;
}

void add_pointwise_facts(Bindings& values, const ConvProblem& p) {
  values["C_ALL"] = p.CG;
  values["W_C1"] = p.w_c1;
  values["W_O1"] = p.w_o1;
  const auto value = [&](const char* name) { return values.contains(name) ? values.find(name)->second : 1; };
  const Extent3& walk = p.kind == ConvProblem::Kind::input_grad ? p.in : p.out;
  values["PIXELS"] = p.sized ? value("NI") * std::min(value("QH"), walk[1]) * std::min(16 * value("QT"), walk[2]) : 0;
  values["W_ROW"] = p.w_c1 && p.OG >= 16 ? p.w_row : 0;
}

ConvWeights dense_weights(const ConvProblem& p) {
  const int64_t positions = conv_taps(p);
  ConvWeights w;
  w.space = {p.kernel[1] * p.kernel[2], p.kernel[2], 1};
  const bool forward = p.kind == ConvProblem::Kind::forward;
  const int64_t x_channels = forward ? p.CG : p.OG;
  w.o = forward ? x_channels * positions : positions;
  w.c = forward ? positions : x_channels * positions;
  w.group = p.CG * p.OG * positions;
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

}  // namespace heddle
