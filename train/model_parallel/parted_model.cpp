#include "heddle/train/model_parallel/parted_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/random/generator_scope.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/distributed/collectives.h"
#include "heddle/train/model_parallel/check_mesh.h"

namespace heddle::train {
namespace {

// Experts need tokens of other ranks, so losses are means over all of them within the program; elsewhere each rank
// along dp has a program of its own.
std::vector<std::string> axes_of_batches(const Config& c, const Replicas& replicas) {
  if (replicas.along("ep").ranks == 1 && !computes_experts_apart(c)) return {};
  std::vector<std::string> names{"ep"};
  if (replicas.along("dp").ranks > 1) names.insert(names.begin(), "dp");
  return names;
}

nn::GptPlace place_in(const nn::GptOptions& o, const Config& c, const Replicas& replicas, const Stages& stages) {
  const nn::CutPlace tensor = replicas.along("tp");
  const int64_t last = stages.place_of(stages.chunks - 1);
  return {
      .tensor = tensor,
      .positions = replicas.along("cp"),
      .experts = replicas.along("ep"),
      .batch_axes = axes_of_batches(c, replicas),
      .apart = computes_experts_apart(c),
      .vocabulary_in_parts = tensor.ranks > 1 && o.vocabulary % tensor.ranks == 0 && c.training.label_smoothing == 0,
      .sequence_parallel = c.training.sequence_parallel,
      .blocks = stages.own(),
      .embeds = stages.stage.place == 0,
      .projects = stages.is_last(last)};
}

// Of each line of stages its first and its last rank; the others stand alone.
distributed::Partition ends_of_stages(const distributed::Mesh& mesh, bool in_stages) {
  if (!in_stages) return mesh.groups({});
  distributed::Partition partition;
  for (const std::vector<int>& line : mesh.groups({"pp"})) {
    partition.push_back({line.front(), line.back()});
    for (size_t i = 1; i + 1 < line.size(); ++i) partition.push_back({line[i]});
  }
  return partition;
}

std::vector<std::string> axes_but_data(const distributed::Mesh& mesh) {
  std::vector<std::string> names;
  for (const distributed::MeshAxis& axis : mesh.axes()) {
    if (axis.name != "dp") names.push_back(axis.name);
  }
  return names;
}

std::vector<std::string> axis(const distributed::Mesh& mesh, const std::string& name) {
  const bool there = std::ranges::any_of(mesh.axes(), [&](const auto& a) { return a.name == name; });
  return there ? std::vector{name} : std::vector<std::string>();
}

distributed::Mesh grid_of(const Config& c, const Replicas& replicas) {
  std::vector<distributed::MeshAxis> axes = replicas.grid().axes();
  const bool there = std::ranges::any_of(axes, [](const distributed::MeshAxis& a) { return a.name == "ep"; });
  if (computes_experts_apart(c) && !there) axes.push_back({"ep", 1});
  return {axes, replicas.size()};
}

std::optional<DType> low_precision(const Config& c) {
  return c.training.precision == "f32" ? std::nullopt : std::optional(parse_dtype(c.training.precision));
}

}  // namespace

PartedModel::PartedModel(const nn::Gpt& whole, const Config& c, Replicas& replicas, DeviceContext& device)
    : replicas_(replicas),
      grid_(grid_of(c, replicas)),
      device_(device),
      options_((check_mesh(c, replicas, whole.options()), whole.options())),
      stages_(stages_of(c, replicas.along("pp"), options_)),
      order_{.schedule = schedule_of(c),
             .microbatches = std::max<int64_t>(1, c.training.microbatches),
             .recompute = c.training.recompute_stages},
      dtype_(promote(whole.parameters().front().dtype(), DType::f32)),
      smoothing_(c.training.label_smoothing),
      low_(low_precision(c)),
      parts_(whole, place_in(options_, c, replicas, stages_)),
      links_(replicas.world(), grid_),
      model_(replicas.world().group(grid_, axes_but_data(grid_))),
      tensor_(replicas.world().group(grid_, axis(grid_, "tp"))),
      experts_(replicas.world().group(grid_, axis(grid_, "ep"))),
      data_(replicas.world().group(grid_, axis(grid_, "dp"))),
      stage_group_(replicas.world().group(grid_, axis(grid_, "pp"))),
      tied_(replicas.world().group("ends of stages", ends_of_stages(grid_, in_stages()))) {
  std::map<std::string, size_t> numbers;
  for (const auto& [name, value] : whole.named_parameters()) {
    numbers.emplace(name, all_.size());
    all_.push_back({name, value.shape(), parts_.cut_of(name)});
  }
  const std::vector<Tensor> values = whole.parameters();
  for (auto& [name, part] : parts_.named_parameters()) {
    own_.push_back(numbers.at(name));
    Tensor(part).set_requires_grad(values[own_.back()].requires_grad());
  }
}

bool PartedModel::counts(size_t n) const {
  const PartedParameter& parameter = all_[own_[n]];
  const bool once_of_tensor = !parameter.cut.whole() || parts_.cut_place().place == 0;
  const bool once_of_stages = !is_tied(n) || stages_.stage.place == 0;
  return once_of_tensor && once_of_stages && parts_.place().positions.place == 0;
}

Tensor PartedModel::loss(const std::vector<Tensor>& batch, double smoothing) {
  return parts_.whole_loss(batch.at(0), batch.at(1), smoothing);
}

// ---- stages

// What another stage sent varies as it did there.
void PartedModel::set_type(const Tensor& x) const {
  const std::vector<std::string> axes = parts_.place().axes_between_layers();
  if (x.defined() && !axes.empty()) distributed::set_varying(x, axes);
}

Tensor PartedModel::forward(int64_t place, const Tensor& x, const std::vector<Tensor>& batch, double smoothing) {
  const Tensor begin = place == 0 ? parts_.embed(batch.at(0)) : x;
  const Tensor end = parts_.run(begin, stages_.at(place), batch.at(0).dim(1));
  return stages_.is_last(place) ? parts_.loss(end, batch.at(1), smoothing) : end;
}

// Masks are keyed by update, microbatch and place, in whatever order stages come to them.
Tensor PartedModel::forward_in_training(int64_t chunk, const Tensor& x, int64_t microbatch) {
  const int64_t place = stages_.place_of(chunk);
  Generator chance{
      hash_combine(hash_combine(chance_, static_cast<uint64_t>(microbatch)), static_cast<uint64_t>(place))};
  const GeneratorScope masks(chance);
  std::optional<AutocastScope> precision;
  if (low_) precision.emplace(*low_);
  set_type(x);
  return forward(place, x, batches_.at(static_cast<size_t>(microbatch)), smoothing_);
}

std::vector<Tensor> PartedModel::parameters_of(int64_t place) {
  const auto [first, last] = stages_.at(place);
  std::vector<Tensor> found;
  for (const auto& [name, value] : parts_.named_parameters()) {
    bool here = name.starts_with("wte.")   ? place == 0 || stages_.is_last(place)
                : name.starts_with("wpe.") ? place == 0
                                           : stages_.is_last(place);
    if (name.starts_with("h.")) {
      const int64_t block = std::stoll(name.substr(2));
      here = block >= first && block < last;
    }
    if (here && value.requires_grad()) found.push_back(value);
  }
  return found;
}

Pipeline& PartedModel::pipeline_for(const std::vector<Tensor>& batch) {
  const Shape shape = parts_.between_layers(batch.at(0).shape());
  if (pipeline_ && pipeline_shape_ == shape) return *pipeline_;
  std::vector<PipelineChunk> chunks;
  for (int64_t chunk = 0; chunk < stages_.chunks; ++chunk) {
    chunks.push_back({.forward = [this, chunk](const Tensor& x, int64_t m) { return forward_in_training(chunk, x, m); },
                      .parameters = parameters_of(stages_.place_of(chunk))});
  }
  PipelineOptions options = order_;
  options.activations = shape;
  options.dtype = dtype_;
  pipeline_shape_ = shape;
  return pipeline_.emplace(stage_group_, options, std::move(chunks), device_);
}

std::vector<std::vector<Tensor>> PartedModel::microbatches_of(const std::vector<Tensor>& batch) const {
  const int64_t examples = batch.at(0).dim(0), count = order_.microbatches;
  if (examples % count != 0)
    throw ValueError(
        fmt::format("[mesh] --microbatches {}: they do not divide a rank's {} examples; microbatches are of one size",
                    count, examples));
  std::vector<std::vector<Tensor>> all(static_cast<size_t>(count));
  for (int64_t m = 0; m < count; ++m) {
    for (const Tensor& x : batch)
      all[static_cast<size_t>(m)].push_back(
          slice(x, 0, {.start = m * (examples / count), .stop = (m + 1) * (examples / count)}));
  }
  return all;
}

Tensor PartedModel::differentiate(const std::vector<Tensor>& batch) {
  batches_ = microbatches_of(batch);
  Generator& shared = default_generator();
  chance_ = hash_combine(shared.seed, shared.offset++);
  MeshScope scope(links_);
  Pipeline& pipeline = pipeline_for(batches_.front());
  const Pipeline::Step step = pipeline.run();
  scope.finish();
  for (int64_t chunk = 0; chunk < stages_.chunks; ++chunk) {
    std::vector<Tensor> of = parameters_of(stages_.place_of(chunk));
    const std::vector<Tensor>& gradients = step.gradients[static_cast<size_t>(chunk)];
    for (size_t i = 0; i < of.size(); ++i) {
      if (gradients[i].defined()) of[i].set_grad(gradients[i]);
    }
  }
  batches_.clear();
  note_time(step);
  return full(Shape(), step.loss, DType::f32, &device_);
}

void PartedModel::note_time(const Pipeline::Step& step) {
  if (!std::exchange(compiled_, true)) return;
  for (const Pipeline::Span& span : step.spans) busy_ += span.end - span.begin;
  seconds_ += step.seconds;
}

// Of the time until the last stage ends, as the schedules' papers count it.
std::optional<double> PartedModel::bubble() {
  if (!in_stages() || seconds_ == 0) return std::nullopt;
  double busy = busy_, longest = seconds_;
  replicas_.wait(stage_group_.all_reduce(&busy, DType::f64, Shape()));
  replicas_.wait(stage_group_.all_reduce(&longest, DType::f64, Shape(), distributed::Reduction::max));
  return 1 - busy / (static_cast<double>(stages_.stage.ranks) * longest);
}

// ---- evaluation

double PartedModel::evaluate(const std::vector<Tensor>& batch) {
  const NoGradScope no_grad;
  if (in_stages()) return evaluate_in_stages(batch);
  MeshScope scope(links_);
  const double value = loss(batch, 0).item();
  scope.finish();
  return value;
}

double PartedModel::evaluate_in_stages(const std::vector<Tensor>& batch) {
  MeshScope scope(links_);
  double value = 0;
  for (int64_t place = 0; place < stages_.places(); ++place) {
    if (!stages_.is_own(place)) continue;
    const Tensor x = place == 0 ? Tensor() : received(parts_.between_layers(batch.at(0).shape()), place - 1);
    set_type(x);
    const Tensor y = forward(place, x, batch, 0);
    if (stages_.is_last(place))
      value = y.item();
    else
      send(y, place + 1);
  }
  scope.finish();
  stage_group_.broadcast(&value, DType::f64, Shape(), stages_.rank_of(stages_.places() - 1)).wait();
  return value;
}

Tensor PartedModel::received(const Shape& shape, int64_t from_place) {
  const auto elements = static_cast<size_t>(shape.numel());
  std::vector<uint8_t> bytes(elements * size_of(dtype_));
  stage_group_.receive(bytes.data(), dtype_, shape, stages_.rank_of(from_place)).wait();
  return Tensor::from_bytes(bytes.data(), elements, dtype_, shape, &device_);
}

void PartedModel::send(const Tensor& x, int64_t to_place) {
  const std::vector<uint8_t> bytes = x.to_bytes();
  stage_group_.send(bytes.data(), dtype_, x.shape(), stages_.rank_of(to_place)).wait();
}

}  // namespace heddle::train
