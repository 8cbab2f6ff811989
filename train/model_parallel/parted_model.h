// PartedModel: one rank's part of a Gpt that the ranks of a mesh train together, and how a batch goes through all
// parts.
//
// Purpose: what --mesh dp=2,tp=2,pp=2 makes of a model: heads and widths along tp, blocks along pp, positions along
// cp, experts along ep; ranks along dp have the same parts. Each rank's parameters are leaves that an optimizer takes
// as they are. Gradients are those of the rank's part of the batch: sums over tp and cp follow from the types of values
// (core/graph/mesh_scope.h), those over pp from the pipeline, those over dp are the caller's (mesh_step.h), and so are
// those over ep of what its ranks share, and over tp of what ranks with positions of their own share: once an update,
// in one call, however many microbatches there are. Under --parts a mixture's losses are those of each rank's own
// tokens. Invariants: every rank of the mesh makes the same calls; values are the whole model's up to rounding. Errors:
// ValueError for a mesh that the model's sizes do not fit, naming both, and for options that do not go with it; those
// of distributed/errors.h. Thread safety: none.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/graph/mesh_scope.h"
#include "heddle/distributed/mesh_links.h"
#include "heddle/nn/models/gpt_parts.h"
#include "heddle/train/config.h"
#include "heddle/train/model_parallel/stages.h"
#include "heddle/train/pipeline.h"
#include "heddle/train/replicas.h"

namespace heddle::train {

// A parameter of the whole model.
struct PartedParameter {
  std::string name;
  Shape whole;
  nn::ParameterCut cut;
};

class PartedModel {
 public:
  // `replicas` and `device` outlive it; the model may go afterwards.
  PartedModel(const nn::Gpt& whole, const Config& config, Replicas& replicas, DeviceContext& device);
  PartedModel(const PartedModel&) = delete;
  PartedModel& operator=(const PartedModel&) = delete;

  nn::GptParts& module() { return parts_; }
  Replicas& replicas() const { return replicas_; }
  DeviceContext& device() const { return device_; }
  const nn::GptOptions& options() const { return options_; }

  // In the order of the whole model, on all ranks; and which of them this rank's n-th parameter is.
  const std::vector<PartedParameter>& parameters() const { return all_; }
  const std::vector<size_t>& own() const { return own_; }
  // Whether the rank's n-th parameter counts here in what is taken over all: others of its group have the same.
  bool counts(size_t n) const;
  // The rank's n-th parameter is on the first and on the last stage.
  bool is_tied(size_t n) const { return in_stages() && all_[own_[n]].name == "wte.weight"; }

  // The gradient of the rank's n-th parameter is that of its own positions: its sum over tensor() is the caller's.
  bool is_of_own_positions(size_t n) const { return parts_.place().sequence_parallel && all_[own_[n]].cut.whole(); }

  // A pass takes a part of the batch by itself (GptPlace::apart).
  bool has_experts_in_parts() const { return !parts_.place().batch_axes.empty(); }
  bool is_apart() const { return parts_.place().apart; }
  // Whether others along ep have other parts of the rank's n-th parameter.
  bool is_of_experts(size_t n) const { return has_experts_in_parts() && !all_[own_[n]].cut.whole(); }
  // Of the rank's n-th parameter, `parameter`; of experts of a pass that is apart (n, ...), by the rank that sent rows.
  Tensor gradient_of(size_t n, const Tensor& parameter) const {
    return parts_.gradient_of(all_[own_[n]].name, parameter);
  }

  // Ranks that have the parts of one model; of those, the ranks along tp, and along ep; the two stages that have the
  // token table (else this rank alone); those over whose gradients of the same part the caller takes the mean.
  distributed::Group& group() { return model_; }
  distributed::Group& tensor() { return tensor_; }
  distributed::Group& experts() { return experts_; }
  distributed::Group& tied() { return tied_; }
  distributed::Group& data() { return data_; }

  // What the calls of a scope go through.
  distributed::MeshLinks& links() { return links_; }

  bool in_stages() const { return stages_.stage.ranks > 1; }
  // Without stages: the mean loss of tokens and targets (B, T), recorded within a scope.
  Tensor loss(const std::vector<Tensor>& batch, double smoothing);
  // In stages: the mean loss, and gradients in the parameters. Waits for the other ranks.
  Tensor differentiate(const std::vector<Tensor>& batch);
  // Share of the time of all updates but the first, which compiles, in which a stage waited for others: the mean over
  // the stages, on all ranks of a pipeline. Without stages, and of one update, none.
  std::optional<double> bubble();
  // The mean loss of a batch, on all ranks, without gradients.
  double evaluate(const std::vector<Tensor>& batch);

 private:
  void set_type(const Tensor& x) const;
  Tensor forward(int64_t place, const Tensor& x, const std::vector<Tensor>& batch, double smoothing);
  Tensor forward_in_training(int64_t chunk, const Tensor& x, int64_t microbatch);
  std::vector<Tensor> parameters_of(int64_t place);
  void note_time(const Pipeline::Step& step);
  Pipeline& pipeline_for(const std::vector<Tensor>& batch);
  std::vector<std::vector<Tensor>> microbatches_of(const std::vector<Tensor>& batch) const;
  double evaluate_in_stages(const std::vector<Tensor>& batch);
  Tensor received(const Shape& shape, int64_t from_place);
  void send(const Tensor& x, int64_t to_place);

  Replicas& replicas_;
  const distributed::Mesh grid_;  // with an axis ep, if it has one rank, where experts are computed apart
  DeviceContext& device_;
  const nn::GptOptions options_;
  const Stages stages_;
  const PipelineOptions order_;
  const DType dtype_;  // of what goes from block to block
  const double smoothing_;
  const std::optional<DType> low_;  // of products, in mixed precision
  nn::GptParts parts_;
  std::vector<PartedParameter> all_;
  std::vector<size_t> own_;
  distributed::MeshLinks links_;
  distributed::Group model_, tensor_, experts_, data_, stage_group_, tied_;
  std::vector<std::vector<Tensor>> batches_;  // of the update under way, by microbatch
  uint64_t chance_ = 0;                       // of its masks
  std::optional<Pipeline> pipeline_;
  Shape pipeline_shape_;
  double busy_ = 0, seconds_ = 0;  // of pipelines
  bool compiled_ = false;
};

}  // namespace heddle::train
