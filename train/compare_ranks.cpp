#include "heddle/train/compare_ranks.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/train/fingerprint.h"

namespace heddle::train {

void compare_ranks(Replicas& replicas, const Config& config, const Task& task, const DeviceContext& device) {
  if (replicas.alone() && config.training.parts == 0) return;
  if (!task.loss_weighs_examples_alike())
    throw ValueError(fmt::format("[train] the loss of {} weighs examples differently: {} cannot share its batches",
                                 config.run.recipe, replicas.alone() ? "parts" : "ranks"));
  if (replicas.alone()) return;
  Config shared = config;
  shared.run.device = shared.run.out = "";
  shared.log = {};
  shared.log.eval_every = config.log.eval_every;
  shared.log.sample_every = config.log.sample_every;
  replicas.require_equal("options", shared.str());
  replicas.require_equal("code", code_fingerprint());
  replicas.require_equal("data", data_fingerprint(task.training()));
  const DeviceInfo& info = device.info();
  replicas.compare_devices(fmt::format("{} {} {}", info.backend, info.name, info.driver));
}

}  // namespace heddle::train
