// Activations composed of rows of elementwise.inc (those that are rows are in elementwise.h).
//
// Purpose: each records a handful of nodes that fuse into one kernel; gradients of any order come from the rows'.
// Integers are cast to f32. At kinks the gradient is that of the side named in docs/gradients.md. Errors: ShapeError,
// DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <optional>

#include "heddle/core/graph/tensor.h"

namespace heddle {

Tensor logit(const Tensor& x, std::optional<double> epsilon = {},
             Caller caller = Caller::current());  // log(x / (1 - x)); x clamped to [epsilon, 1 - epsilon]
Tensor logsigmoid(TensorArg x);
Tensor hardtanh(const Tensor& x, double low = -1, double high = 1, Caller caller = Caller::current());
Tensor hardsigmoid(TensorArg x);  // clamp(x + 3, 0, 6) / 6
Tensor hardswish(TensorArg x);    // x hardsigmoid(x)
Tensor relu6(TensorArg x);
Tensor leaky_relu(const Tensor& x, double slope = 0.01, Caller caller = Caller::current());
Tensor elu(const Tensor& x, double alpha = 1, Caller caller = Caller::current());
Tensor selu(TensorArg x);  // Klambauer et al., "Self-normalizing neural networks", 2017
Tensor celu(const Tensor& x, double alpha = 1, Caller caller = Caller::current());
Tensor mish(TensorArg x);      // x tanh(softplus(x))
Tensor softsign(TensorArg x);  // x / (1 + |x|)
// weight: one element, or one for each of axis 1 of x.
Tensor prelu(TensorArg x, const Tensor& weight);
Tensor tanhshrink(TensorArg x);  // x - tanh(x)
Tensor softshrink(const Tensor& x, double lambda = 0.5, Caller caller = Caller::current());
Tensor hardshrink(const Tensor& x, double lambda = 0.5, Caller caller = Caller::current());
Tensor threshold(const Tensor& x, double threshold, double value,
                 Caller caller = Caller::current());  // x where x > threshold, else value
// Halves a, b of an axis of even length: a sigmoid(b); a gelu(b); silu(a) b, as in LLaMA; relu(a) b. Shazeer, "GLU
// variants improve transformer", 2020.
Tensor glu(const Tensor& x, int axis = -1, Caller caller = Caller::current());
Tensor geglu(const Tensor& x, int axis = -1, Caller caller = Caller::current());
Tensor swiglu(const Tensor& x, int axis = -1, Caller caller = Caller::current());
Tensor reglu(const Tensor& x, int axis = -1, Caller caller = Caller::current());

}  // namespace heddle
