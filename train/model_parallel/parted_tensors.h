// PartedTensors: tensors of a run whose ranks have parts of its model, as one process has them, and back.
//
// Purpose: files know nothing of meshes: what tp=2,pp=2 wrote is read by one process and by any other mesh. Names are
// those of checkpoints (train/run_state.h): "model.<path>", "optimizer.<index>.<state>", "average.<index>", whose
// indices count the whole model's parameters. Invariants: every rank of the mesh makes the same calls; a tensor is sent
// by itself, so that no rank but the one that asks for them has more than one whole tensor at a time. Errors: IoError
// for a file without a tensor of this rank's; those of distributed/errors.h. Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/io/safetensors.h"
#include "heddle/train/model_parallel/parted_model.h"

namespace heddle::train {

class PartedTensors {
 public:
  explicit PartedTensors(PartedModel& model) : model_(model) {}

  // On the first rank all of them whole, in the host's memory (reference:0); on the others none. Waits for the device.
  TensorMap joined(const TensorMap& own);
  // The same of the model's parameters, by their own names.
  TensorMap joined_weights();
  // This rank's parts of whole tensors, on its device; what belongs to other stages is left out.
  TensorMap own_of(const TensorMap& whole);
  // SHA-256 of the whole model's parameters, as train::parameters_sha256(): on every rank, of its group's.
  std::string parameters_sha256();

 private:
  struct Entry;
  using See = Callable<void(const Entry& entry, std::vector<uint8_t> whole)>;
  void each(const TensorMap& own, const See& see);
  std::vector<Entry> entries_of_all(const TensorMap& own);
  std::string global_name(const std::string& name) const;
  const PartedParameter* parameter_of(const std::string& name) const;
  nn::ParameterCut cut_of(const std::string& name, const Shape& part) const;
  std::vector<uint8_t> gather(const std::vector<uint8_t>& mine, const std::vector<int64_t>& sizes);

  PartedModel& model_;
};

}  // namespace heddle::train
