#include "heddle/train/model_parallel/check_mesh.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/train/model_parallel/stages.h"

namespace heddle::train {
namespace {

[[noreturn]] void refuse(const Replicas& replicas, const std::string& what) {
  throw ValueError(fmt::format("[mesh] {}: {}", replicas.mesh(), what));
}

void check_experts(const Config& c, const Replicas& replicas, int64_t experts) {
  const int64_t ranks = replicas.along("ep").ranks, batches = replicas.along_batch().ranks;
  if (ranks == 1 && experts == 0) return;
  if (ranks == 1 && (batches < replicas.size() || !computes_experts_apart(c)))
    refuse(replicas, fmt::format("the {} experts of a mixture lie on ranks along ep alone", experts));
  if (experts == 0) refuse(replicas, "there are no experts for ranks along ep; --experts 8 makes some");
  if (batches < replicas.size()) refuse(replicas, "ranks along ep go with ranks along dp alone yet");
  if (experts % ranks != 0) refuse(replicas, fmt::format("{} ranks along ep do not divide {} experts", ranks, experts));
  if (c.training.batch % batches != 0)
    refuse(replicas,
           fmt::format("the {} ranks along dp and ep take as many examples each, and do not divide --batch {}", batches,
                       c.training.batch));
}

void check_sizes(const Config& c, const Replicas& replicas, const nn::GptOptions& model) {
  const int64_t tensor = replicas.along("tp").ranks, positions = replicas.along("cp").ranks;
  if (model.heads % tensor != 0)
    refuse(replicas, fmt::format("{} ranks along tp do not divide {} heads", tensor, model.heads));
  if (model.context % positions != 0)
    refuse(replicas, fmt::format("{} ranks along cp do not divide {} positions", positions, model.context));
  if (positions > 1 && model.dropout > 0)
    refuse(replicas, fmt::format("attention over positions in parts has no dropout, and --set model.dropout is {}",
                                 model.dropout));
  if (c.training.sequence_parallel) {
    if (model.context % (positions * tensor) != 0)
      refuse(replicas, fmt::format("--sequence-parallel: {} ranks along tp{} do not divide {} positions",
                                   positions * tensor, positions > 1 ? " and cp" : "", model.context));
  }
  check_experts(c, replicas, model.experts);
  (void)stages_of(c, replicas.along("pp"), model);
}

// What is about whole parameters, or about lists that ranks along dp alone have; empty: nothing.
std::string refused_option(const Config& c) {
  const auto& o = c.optimizer;
  if (c.training.sharding != "none")
    return fmt::format("--sharding {} does not go with parts of a model yet", c.training.sharding);
  if (c.training.balance) return "--balance does not go with parts of a model yet";
  if (c.training.compress != "none")
    return fmt::format("--compress {} does not go with parts of a model yet", c.training.compress);
  if (o.name == "lamb" || o.name == "muon" || o.name == "adafactor")
    return fmt::format("{} looks at whole parameters, of which a rank has parts", o.name);
  if (o.states != "f32") return "states of 8 bits are of whole parameters, of which a rank has parts";
  if (c.training.precision == "f16") return "f16 does not go with parts of a model yet; bf16 does";
  if (c.checkpoint.use_best) return "--use-best does not go with parts of a model yet";
  if (c.log.histograms_every > 0) return "--histograms-every: no rank has all gradients";
  if (c.run.check_numbers) return "--check-numbers runs operations again, of one rank alone";
  return {};
}

void check_options(const Config& c, const Replicas& replicas) {
  if (const std::string refused = refused_option(c); !refused.empty()) refuse(replicas, refused);
  if (c.training.parts > 0 && replicas.along_batch().ranks < replicas.size())
    refuse(replicas, fmt::format("--parts {} goes with ranks along dp and ep alone yet", c.training.parts));
}

}  // namespace

bool computes_experts_apart(const Config& c) {
  return c.training.parts > 0 && c.model.contains("experts") && c.model_value<Integer>("experts") > 0 &&
         refused_option(c).empty();
}

void check_mesh(const Config& c, const Replicas& replicas, const nn::GptOptions& model) {
  check_sizes(c, replicas, model);
  check_options(c, replicas);
}

void check_axis_options(const Config& c, const Replicas* replicas) {
  const auto given = [&](const char* key) { return c.given().contains(key); };
  if (c.training.sequence_parallel && given("training.sequence_parallel") &&
      (replicas == nullptr || replicas->along("tp").ranks == 1))
    throw ValueError("[mesh] --sequence-parallel: there are no ranks along tp; --mesh tp=2 makes two");
  if (replicas != nullptr && replicas->along("pp").ranks > 1) return;
  if (c.training.microbatches > 0)
    throw ValueError(
        fmt::format("[mesh] --microbatches {}: there are no stages; --mesh pp=2 makes two", c.training.microbatches));
  if (c.training.recompute_stages && given("training.recompute_stages"))
    throw ValueError("[mesh] --recompute-stages: there are no stages; --mesh pp=2 makes two");
  if (given("training.pipeline"))
    throw ValueError(
        fmt::format("[mesh] --pipeline {}: there are no stages; --mesh pp=2 makes two", c.training.pipeline));
}

}  // namespace heddle::train
