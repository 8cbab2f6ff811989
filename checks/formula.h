// Weights and batches by a formula that tools/parity/models.py has too: the same bits on both sides, so that files hold
// results alone.
#pragma once

#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/graph/philox.h"
#include "heddle/nn/nn.h"

namespace heddle::checks::formula {

constexpr uint32_t weight_seed = 1, data_seed = 2;

inline std::vector<float> noise(uint32_t seed, uint32_t stream, uint32_t part, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = philox_uniform({seed, 0, stream, part}, i);
  return values;
}

// By number in the order of names: matrices uniform in +-1/sqrt(fan in), running variances in [0.5, 1.5), weights of
// norms in [0.9, 1.1), others in +-0.1.
inline Tensor value_of(const std::string& name, uint32_t number, const Shape& shape, DeviceContext& where) {
  std::vector<float> values = noise(weight_seed, number, 0, shape.numel());
  const float bound =
      shape.rank() > 1
          ? static_cast<float>(1 / std::sqrt(static_cast<double>(shape.numel()) / static_cast<double>(shape[0])))
          : 0.1f;
  for (float& v : values) {
    const float u = v * 2 - 1;
    if (shape.rank() == 1 && name.ends_with("running_var"))
      v = u * 0.5f + 1;
    else
      v = u * bound + (shape.rank() == 1 && name.ends_with("weight") ? 1.0f : 0.0f);
  }
  return Tensor::from_vector(values, shape, &where);
}

inline void set_by_formula(const nn::StateDict& tensors) {
  const NoGradScope no_grad;
  uint32_t number = 0;
  for (auto [name, tensor] : tensors) tensor.assign(value_of(name, number++, tensor.shape(), tensor.device()));
}

inline nn::StateDict parameters_of(const nn::Module& model) {
  const nn::NamedTensors list = model.named_parameters();
  return {list.begin(), list.end()};
}

struct Batch {
  Tensor x, y;
};

// Noise in [0, 0.5), and 0.5 more where the flat index modulo the number of classes is the label.
inline Batch images(uint32_t step, int64_t batch, const Shape& shape, int64_t classes, DeviceContext& where) {
  const int64_t size = shape.numel();
  std::vector<float> x = noise(data_seed, step, 0, batch * size);
  std::vector<int32_t> labels;
  for (const float u : noise(data_seed, step, 1, batch))
    labels.push_back(static_cast<int32_t>(u * static_cast<float>(classes)));
  for (int64_t i = 0; i < batch * size; ++i) {
    float& v = x[static_cast<size_t>(i)];
    v = v * 0.5f + (i % size % classes == labels[static_cast<size_t>(i / size)] ? 0.5f : 0.0f);
  }
  Shape all{batch};
  for (int axis = 0; axis < shape.rank(); ++axis) all.push_back(shape[axis]);
  return {Tensor::from_vector(x, all, &where), Tensor::from_vector(labels, Shape{batch}, &where)};
}

// Tokens whose next one is theirs plus 0 or 1.
inline Batch text(uint32_t step, int64_t batch, int64_t length, int64_t vocabulary, DeviceContext& where) {
  const std::vector<float> moves = noise(data_seed, step, 0, batch * (length + 1)),
                           first = noise(data_seed, step, 1, batch);
  std::vector<int32_t> x, y;
  for (int64_t b = 0; b < batch; ++b) {
    int64_t token = static_cast<int64_t>(first[static_cast<size_t>(b)] * static_cast<float>(vocabulary));
    for (int64_t t = 0; t < length; ++t) {
      x.push_back(static_cast<int32_t>(token));
      token = (token + static_cast<int64_t>(moves[static_cast<size_t>(b * (length + 1) + t + 1)] * 2)) % vocabulary;
      y.push_back(static_cast<int32_t>(token));
    }
  }
  return {Tensor::from_vector(x, Shape{batch, length}, &where), Tensor::from_vector(y, Shape{batch * length}, &where)};
}

}  // namespace heddle::checks::formula
