// Builders of activations.inc.
#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

// Until opset 12 all axes from `axis` on are one; since then it is that axis alone.
template <class F>
void along_axis(Call& c, const F& f) {
  const Tensor x = c.tensor(0);
  if (c.opset() >= 13) return c.out(f(x, c.axis(c.integer("axis", -1), x.rank())), c.type(0));
  const int axis = c.axis(c.integer("axis", 1), x.rank());
  int64_t rows = 1;
  for (int i = 0; i < axis; ++i) rows *= x.dim(i);
  const int64_t columns = rows == 0 ? 0 : x.numel() / rows;
  c.out(reshape(f(reshape(x, Shape{rows, columns}), 1), x.shape()), c.type(0));
}

}  // namespace

#define HEDDLE_ACTIVATION(name, function) \
  void name(Call& c) { c.out(heddle::function(c.tensor(0)), c.type(0)); }
HEDDLE_ACTIVATION(hard_swish, hardswish)
HEDDLE_ACTIVATION(mish, mish)
HEDDLE_ACTIVATION(relu, relu)
HEDDLE_ACTIVATION(sigmoid, sigmoid)
HEDDLE_ACTIVATION(softplus, softplus)
HEDDLE_ACTIVATION(softsign, softsign)
HEDDLE_ACTIVATION(tanh, tanh)
#undef HEDDLE_ACTIVATION

void celu(Call& c) { c.out(heddle::celu(c.tensor(0), c.real("alpha", 1)), c.type(0)); }
void elu(Call& c) { c.out(heddle::elu(c.tensor(0), c.real("alpha", 1)), c.type(0)); }
void leaky_relu(Call& c) { c.out(heddle::leaky_relu(c.tensor(0), c.real("alpha", 0.01)), c.type(0)); }

void gelu(Call& c) {
  const Tensor x = c.tensor(0);
  c.out(c.text("approximate", "none") == "tanh" ? gelu_tanh(x) : heddle::gelu(x), c.type(0));
}

void hard_sigmoid(Call& c) { c.out(clamp(c.tensor(0) * c.real("alpha", 0.2) + c.real("beta", 0.5), 0, 1), c.type(0)); }

void hardmax(Call& c) {
  along_axis(c, [](const Tensor& x, int axis) {
    const Tensor at = argmax(x, axis, true);
    Shape places;
    for (int i = 0; i < x.rank(); ++i) places.push_back(i == axis ? x.dim(i) : 1);
    const Tensor number = reshape(arange(0, static_cast<double>(x.dim(axis)), 1, DType::i64, &x.device()), places);
    return heddle::cast(heddle::eq(at, number), x.dtype());
  });
}

void softmax(Call& c) {
  along_axis(c, [](const Tensor& x, int axis) { return heddle::softmax(x, axis); });
}
void log_softmax(Call& c) {
  along_axis(c, [](const Tensor& x, int axis) { return heddle::log_softmax(x, axis); });
}

// Opset 6 gives one slope a channel.
void prelu(Call& c) {
  const Tensor x = c.tensor(0);
  Tensor slope = c.tensor(1);
  if (c.opset() < 7 && slope.rank() == 1 && slope.numel() > 1) {
    for (int i = 2; i < x.rank(); ++i) slope = unsqueeze(slope, -1);
  }
  c.out(heddle::where(x < 0.0, slope * x, x), c.type(0));
}

void selu(Call& c) {
  const double alpha = c.real("alpha", 1.67326319217681884765625), gamma = c.real("gamma", 1.05070102214813232421875);
  c.out(heddle::elu(c.tensor(0), alpha) * gamma, c.type(0));
}

void shrink(Call& c) {
  const Type type = c.type(0);
  const Tensor x = c.tensor(0);
  const double bias = c.real("bias", 0), lambda = c.real("lambd", 0.5);
  const Tensor outside = heddle::where(x < -lambda, x + bias, heddle::where(x > lambda, x - bias, zeros_like(x)));
  c.out(heddle::cast(outside, x.dtype()), type);
}

void swish(Call& c) {
  const Tensor x = c.tensor(0);
  c.out(x * heddle::sigmoid(x * c.real("alpha", 1)), c.type(0));
}

void swiglu(Call& c) {
  const Tensor gate = c.tensor(0);
  if (gate.shape() != c.shape(1)) c.fail("the two inputs have other shapes");
  c.out(gate * heddle::sigmoid(gate * c.real("alpha", 1)) * c.tensor(1), c.type(0));
}

void thresholded_relu(Call& c) {
  const Tensor x = c.tensor(0);
  c.out(heddle::where(x > c.real("alpha", 1), x, zeros_like(x)), c.type(0));
}

}  // namespace heddle::onnx::build
