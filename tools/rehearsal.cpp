#include "tools/rehearsal.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "bench/training_step.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/distributed/errors.h"
#include "heddle/distributed/forecast/mesh_share.h"
#include "heddle/distributed/local_transport.h"
#include "heddle/nn/init.h"
#include "heddle/train/model_parallel/parted_model.h"
#include "heddle/train/step.h"

namespace heddle::tools {
namespace {

using distributed::LocalWorld;
using distributed::World;

// The first makes states, the second is recorded again, later ones are replayed, and after eight of those what is
// recorded runs once more beside what is kept (core/compile/compile.h): the fullest that an update can be.
constexpr int updates = 12;

// A training step of bench/training_step.h as the trainer's task, in parts where the mesh says so.
class StepTask final : public train::Task {
 public:
  StepTask(bench::TrainingStep step, const train::Config& config, train::Replicas& replicas, DeviceContext& device)
      : step_(std::move(step)) {
    inputs_.push_back({step_.x.shape(), step_.x.dtype()});
    if (step_.y.node() != step_.x.node()) inputs_.push_back({step_.y.shape(), step_.y.dtype()});
    step_.x = step_.y = {};  // as the optimizer: training has its own
    step_.optimizer.reset();
    if (!replicas.share_model()) return;
    parted_.emplace(dynamic_cast<const nn::Gpt&>(*step_.model), config, replicas, device);
    step_.loss = {};
    step_.model.reset();
  }

  nn::Module& model() override { return parted_ ? static_cast<nn::Module&>(parted_->module()) : *step_.model; }
  train::PartedModel* parted() override { return parted_ ? &*parted_ : nullptr; }
  const train::TrainingData& training() const override { return data_; }
  Tensor loss(const std::vector<Tensor>& batch) override {
    return parted_ ? parted_->loss(batch, 0) : step_.loss(batch.front(), batch.back());
  }
  train::Evaluation evaluate(int64_t) override { return {}; }

  // So many examples, uploaded as a feed does.
  std::vector<Tensor> batch(int64_t examples, DeviceContext& device) const {
    std::vector<Tensor> made;
    for (const auto& [whole, dtype] : inputs_) {
      const Shape shape = whole.with(0, examples);
      const std::vector<uint8_t> zeros(static_cast<size_t>(shape.numel()) * size_of(dtype));
      made.push_back(Tensor::from_batch_bytes(zeros.data(), static_cast<size_t>(shape.numel()), dtype, shape, &device));
    }
    return made;
  }

 private:
  bench::TrainingStep step_;
  std::vector<std::pair<Shape, DType>> inputs_;  // of an autoencoder one, which is what it is to give as well
  std::optional<train::PartedModel> parted_;
  train::TrainingData data_;
};

train::Config config_of(const std::string& step, const RehearsalOptions& o, bool in_stages,
                        const nn::Optimizer& optimizer) {
  train::Config c;
  c.run.recipe = step;
  c.optimizer.name = dynamic_cast<const nn::AdamW*>(&optimizer) != nullptr ? "adamw" : "adam";
  c.training.clip_norm = optimizer.clip_norm().value_or(0);
  c.training.accumulate = in_stages ? 1 : o.microbatches;
  c.training.batch = o.batch / c.training.accumulate;
  c.training.microbatches = in_stages ? o.microbatches : 0;
  c.training.sharding = o.sharding;
  c.training.pipeline = o.pipeline;
  c.training.chunks = o.chunks;
  c.training.sequence_parallel = o.sequence_parallel;
  return c;
}

double bytes_of(const nn::NamedTensors& tensors) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<uint64_t>(tensor.numel()) * size_of(tensor.dtype());
  return static_cast<double>(bytes);
}

RehearsedRank take_updates(const std::string& text, const RehearsalOptions& options, World& world,
                           DeviceContext& device) {
  const nn::init::SkipScope skip;
  const IndexGuardScope unwatched(IndexGuard::off);  // a blank device would say that index 0 is wrong
  train::Replicas replicas(world, options.mesh);
  const nn::CutPlace stage = replicas.along("pp");
  bench::TrainingStep made = bench::make_training_step(text, device);
  const train::Config config = config_of(text, options, stage.ranks > 1, *made.optimizer);
  StepTask task(std::move(made), config, replicas, device);
  train::Optimizers optimizers(
      task, config, [](int64_t) { return 1e-3; }, device);
  RehearsedRank rank{.stage = stage.place, .trained = bytes_of(task.model().named_parameters())};
  rank.parameters = rank.trained + bytes_of(task.model().named_buffers());
  train::TrainingStep step(task, optimizers, nullptr, config, device, &replicas);
  const int64_t examples = replicas.part_of(config.training.batch).size * config.training.accumulate;
  std::vector<Tensor> batch = task.batch(examples, device), next;
  device.reset_peak_memory();
  for (int update = 0; update < updates; ++update) {
    const uint64_t before = replicas.bytes_sent();
    (void)step.submit(batch, false, {}, [&] { next = task.batch(examples, device); });
    if (next.empty()) next = task.batch(examples, device);
    batch = std::exchange(next, {});
    rank.bytes_per_step = static_cast<double>(replicas.bytes_sent() - before);
  }
  rank.peak = static_cast<double>(device.memory().peak_bytes);
  return rank;
}

// What a rank threw first; a rank that only met the end of another says nothing.
class FirstError {
 public:
  void take(std::exception_ptr error, bool of_another) {
    const std::lock_guard lock(mutex_);
    if (error_ != nullptr && (of_another || !of_another_)) return;
    error_ = std::move(error);
    of_another_ = of_another;
  }
  void rethrow() const {
    if (error_ != nullptr) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
  bool of_another_ = false;
};

}  // namespace

std::vector<RehearsedRank> rehearse(const std::string& step, const RehearsalOptions& options,
                                    const Callable<std::unique_ptr<DeviceContext>()>& blank) {
  const int ranks = distributed::parse_mesh(options.mesh).ranks();
  const LocalWorld local(ranks);
  std::vector<std::unique_ptr<DeviceContext>> devices;
  for (int rank = 0; rank < ranks; ++rank) devices.push_back(blank());
  std::vector<RehearsedRank> found(static_cast<size_t>(ranks));
  FirstError first;
  const auto take = [&](int rank) {
    std::optional<World> world;
    try {
      world.emplace([&] { return local.transport(rank); });
      found[static_cast<size_t>(rank)] = take_updates(step, options, *world, *devices[static_cast<size_t>(rank)]);
    } catch (const distributed::CommunicationError&) {
      first.take(std::current_exception(), true);
    } catch (...) {
      first.take(std::current_exception(), false);
      if (world) world->give_up();
    }
  };
  std::vector<std::jthread> threads;
  for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(take, rank);
  take(0);
  threads.clear();
  first.rethrow();
  return found;
}

}  // namespace heddle::tools
