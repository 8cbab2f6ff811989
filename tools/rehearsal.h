// The step of a mesh, rehearsed: every rank is a thread with a blank device and takes the updates that training takes.
//
//   const std::vector<RehearsedRank> ranks = rehearse("char-gpt", {.mesh = "pp=2,tp=2", .batch = 12}, blank);
//
// Purpose: `heddle plan --mesh` of a recorded step. The code that trains (train/step.h) runs over a world of this
// process (distributed/local_transport.h), so bytes that are sent and the peak of a rank's allocator are those of
// training, whatever a rank has of the model or of states. Invariants: nothing is computed, and blank devices hold
// nothing; the host holds what ranks would send. Errors: those of the training step's text and of a mesh that training
// refuses. Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/device/context.h"

namespace heddle::tools {

struct RehearsalOptions {
  std::string mesh;          // "dp=2,tp=2"; axes of training
  int64_t batch = 0;         // examples of an update, on all ranks together
  int64_t microbatches = 1;  // that a rank's examples go through stages in; without stages, that are accumulated
  std::string sharding = "none", pipeline = "1f1b";
  int64_t chunks = 1;
  bool sequence_parallel = false;
};

struct RehearsedRank {
  int64_t stage = 0;
  double parameters = 0, trained = 0;  // bytes: of parameters and buffers; of parameters alone
  double peak = 0;                     // the most bytes that were held during the updates
  double bytes_per_step = 0;           // sent for one update
};

// In the order of ranks. `blank` gives a device of its own to each.
std::vector<RehearsedRank> rehearse(const std::string& step, const RehearsalOptions& options,
                                    const Callable<std::unique_ptr<DeviceContext>()>& blank);

}  // namespace heddle::tools
