#include "heddle/nn/lora.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "heddle/core/base/glob.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/nn/init.h"
#include "heddle/nn/models/parts.h"
#include "heddle/nn/projection.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

// A module's matrix, (out, in) or rows of blocks.
struct Matrix {
  Tensor values;
  std::optional<GgmlType> packed;
  int64_t out = 0, in = 0;

  Tensor times(const Tensor& x) const {
    return packed ? matmul_packed(x, values, *packed) : matmul(x, transpose(cast(values, DType::f32)));
  }
  Tensor rows(int64_t from, int64_t to) const {
    const Tensor some = slice(values, 0, {.start = from, .stop = to});
    return packed ? unpack_blocks(some, *packed) : cast(some, DType::f32);
  }
  Tensor dense() const { return rows(0, out); }
};

std::optional<Tensor> own(const NamedTensors& tensors, std::string_view name) {
  for (const auto& [path, tensor] : tensors) {
    if (path == name) return tensor;
  }
  return std::nullopt;
}

std::optional<Matrix> matrix_of(const Module& module) {
  if (const auto packed = packed_type_of(module)) {
    const auto blocks = own(module.named_buffers(), "weight");
    if (!blocks) return std::nullopt;
    const GgmlBlock& block = block_of(*packed);
    return Matrix{*blocks, packed, blocks->dim(0), blocks->dim(1) / block.bytes * block.elements};
  }
  if (module.kind() != "Linear" && module.kind() != "Projection") return std::nullopt;
  const auto weight = own(module.named_parameters(), "weight");
  if (!weight) return std::nullopt;
  return Matrix{*weight, {}, weight->dim(0), weight->dim(1)};
}

const LoraOptions& checked(const LoraOptions& o) {
  checked_size("Lora", "rank", o.rank);
  if (!std::isfinite(o.alpha)) throw ValueError(fmt::format("[Lora] alpha is {}; it must be finite", o.alpha));
  if (!(o.dropout >= 0 && o.dropout < 1))
    throw ValueError(fmt::format("[Lora] dropout is {}; it must be in [0, 1)", o.dropout));
  if (o.targets.empty()) throw ValueError("[Lora] no targets; give patterns of paths such as \"*.q_proj\"");
  return o;
}

// Squared lengths of rows, (out); a stretch of rows at a time, so that packed ones are never unpacked at once.
Tensor squared_lengths(const Matrix& matrix) {
  constexpr int64_t stretch = 256;
  std::vector<Tensor> parts;
  for (int64_t from = 0; from < matrix.out; from += stretch) {
    parts.push_back(sum(square(matrix.rows(from, std::min(from + stretch, matrix.out))), {1}));
    eval({parts.back()});
  }
  return concat(parts, 0);
}

// What is trained beside a matrix.
struct Adapter {
  Matrix matrix;
  double scale = 1;
  Tensor a, b, magnitude, squares;  // the last two: dora

  // Lengths of the rows of W + scale B A, (out), from products of `rank` columns.
  Tensor lengths() const {
    const Tensor fixed_a = a.detach(), fixed_b = b.detach();
    const Tensor crossed = sum(fixed_b * transpose(matrix.times(fixed_a)), {1});
    const Tensor added = sum(matmul(fixed_b, matmul(fixed_a, transpose(fixed_a))) * fixed_b, {1});
    return sqrt(maximum(squares + 2 * scale * crossed + scale * scale * added, 1e-30));
  }
  // W and the adapter in one matrix, f32.
  Tensor merged() const {
    const Tensor both = matrix.dense() + scale * matmul(b, a);
    return magnitude.defined() ? both * unsqueeze(magnitude / lengths(), 1) : both;
  }
  // What y = W x + b becomes, x after dropout.
  Tensor applied(const Tensor& x, const Tensor& y) const {
    const Tensor low = matmul(matmul(x, transpose(a)) * scale, transpose(b)), wide = cast(y, DType::f32);
    if (!magnitude.defined()) return cast(wide + low, y.dtype());
    const Tensor factor = magnitude / lengths();
    return cast(wide + (factor - 1.0) * matrix.times(x) + factor * low, y.dtype());
  }
};

struct LoraTarget {
  std::string path;
  Module module;
  Adapter adapter;
  size_t hook = 0;
};

// Modules named "base_model", "model", ... around the adapters, so that paths are PEFT's.
class Tree {
 public:
  explicit Tree(const Callable<void(const std::string&, const Module&)>& root) : root_(root) {}

  Parts& at(const std::string& path) {
    if (const auto found = made_.find(path); found != made_.end()) return found->second;
    Parts& part = made_.emplace(path, Parts("Adapters")).first->second;
    const size_t dot = path.rfind('.');
    if (dot == std::string::npos)
      root_(path, part);
    else
      at(path.substr(0, dot)).add(path.substr(dot + 1), part);
    return part;
  }

 private:
  Callable<void(const std::string&, const Module&)> root_;
  std::map<std::string, Parts> made_;
};

std::vector<LoraTarget> chosen(Module& model, const LoraOptions& o) {
  std::vector<LoraTarget> all;
  std::vector<std::string> names;
  std::vector<bool> used(o.targets.size());
  model.apply([&](const std::string& path, Module& module) {
    const std::optional<Matrix> matrix = matrix_of(module);
    if (!matrix || path.empty()) return;
    names.push_back(path);
    bool fits = false;
    for (size_t i = 0; i < o.targets.size(); ++i) {
      if (!fits_pattern(path, o.targets[i])) continue;
      fits = used[i] = true;
    }
    if (fits) all.push_back({path, module, {.matrix = *matrix}});
  });
  for (size_t i = 0; i < used.size(); ++i) {
    if (!used[i])
      throw ValueError(fmt::format("[Lora] no Linear or Projection of {} fits '{}'; there are {}", model.kind(),
                                   o.targets[i], fmt::join(names, ", ")));
  }
  return all;
}

}  // namespace

std::vector<Adaptable> adaptable(const Module& model) {
  std::vector<Adaptable> all;
  Module(model).apply([&](const std::string& path, Module& module) {
    const std::optional<Matrix> matrix = path.empty() ? std::nullopt : matrix_of(module);
    if (matrix) all.push_back({path, {matrix->out, matrix->in}});
  });
  return all;
}

struct Lora::Shared {
  Module model;
  LoraOptions options;
  double scale = 1;
  bool on = false;
  std::vector<LoraTarget> targets;
};

Lora::Lora(Module model, const LoraOptions& o) : Module("Lora"), shared_(std::make_shared<Shared>()) {
  shared_->options = checked(o);
  shared_->model = model;
  const auto rank = static_cast<double>(o.rank);
  shared_->scale = o.alpha / (o.rank_stabilised ? std::sqrt(rank) : rank);
  shared_->targets = chosen(model, o);
  Tree tree([this](const std::string& name, const Module& part) { add(name, part); });
  for (LoraTarget& target : shared_->targets) {
    Adapter& adapter = target.adapter;
    const Matrix& matrix = adapter.matrix;
    DeviceContext* device = &matrix.values.device();
    const std::string path = "base_model.model." + target.path;
    adapter.scale = shared_->scale;
    Tensor a = heddle::zeros(parameter_shape("Lora", {o.rank, matrix.in}), DType::f32, device);
    init::kaiming_uniform(a, std::sqrt(5.0), init::Fan::in, o.generator);
    adapter.a = tree.at(path + ".lora_A").add_parameter("weight", a);
    const Shape shape = parameter_shape("Lora", {matrix.out, o.rank});
    adapter.b = tree.at(path + ".lora_B").add_parameter("weight", heddle::zeros(shape, DType::f32, device));
    if (!o.dora) continue;
    const NoGradScope no_grad;
    adapter.squares = squared_lengths(matrix);
    adapter.magnitude = tree.at(path).add_parameter("lora_magnitude_vector", sqrt(adapter.squares));
  }
  model.requires_grad(false);
  enable();
}

const LoraOptions& Lora::options() const { return shared_->options; }
const Module& Lora::model() const { return shared_->model; }
double Lora::scale() const { return shared_->scale; }

std::vector<std::string> Lora::paths() const {
  std::vector<std::string> all;
  for (const LoraTarget& target : shared_->targets) all.push_back(target.path);
  return all;
}

void Lora::enable(bool on) {
  if (on == shared_->on) return;
  shared_->on = on;
  for (LoraTarget& target : shared_->targets) {
    if (!on) {
      target.module.remove_hook(target.hook);
      continue;
    }
    target.hook = target.module.register_forward_hook(
        [adapter = target.adapter, o = shared_->options](Module& module, const Tensor& x, const Tensor& y) {
          const bool drops = o.dropout > 0 && module.training();
          const Tensor in = cast(x, DType::f32);
          return adapter.applied(drops ? dropout(in, o.dropout, true, o.generator) : in, y);
        });
  }
}

StateDict Lora::merged_state() const {
  const NoGradScope no_grad;
  StateDict state = shared_->model.state_dict();
  shared_->model.apply([&](const std::string& path, Module& module) {
    const std::optional<Matrix> matrix = matrix_of(module);
    if (matrix && matrix->packed) state.at(path.empty() ? "weight" : path + ".weight") = matrix->dense();
  });
  for (const LoraTarget& target : shared_->targets) {
    Tensor& weight = state.at(target.path + ".weight");
    weight = cast(target.adapter.merged(), weight.dtype());
  }
  return state;
}

Tensor Lora::merged_weight(const std::string& path) const {
  const NoGradScope no_grad;
  for (const LoraTarget& target : shared_->targets) {
    if (target.path == path) return cast(target.adapter.merged(), DType::f32);
  }
  throw ValueError(fmt::format("[Lora] '{}' is not adapted", path));
}

void Lora::merge() {
  for (const LoraTarget& target : shared_->targets) {
    const auto& packed = target.adapter.matrix.packed;
    if (packed)
      throw ValueError(fmt::format("[Lora] {} is packed in {}; load merged_state() into a model in floating point",
                                   target.path, block_of(*packed).name));
  }
  const NoGradScope no_grad;
  enable(false);
  for (const LoraTarget& target : shared_->targets) {
    Tensor weight = target.adapter.matrix.values;
    weight.assign(cast(target.adapter.merged(), weight.dtype()));
  }
}

}  // namespace heddle::nn
