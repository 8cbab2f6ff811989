// ShardedParameters: a model of which each rank keeps its elements alone (ZeRO's stage 3; Rajbhandari et al. 2020,
// "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models", section 5.3).
//
// Purpose: parameters that are trained let go of their values; a rank keeps its own elements (train/shard_layout.h) in
// the host's memory, and, with --ema, their averages. Whoever computes from the model within a ParametersScope has the
// buckets that it reads put together from all ranks, each for as long as it is read (core/graph/lender.h): (N-1)/N of
// a bucket's bytes each time. Beside training buckets stay until the scope ends while there is room where an update has
// the rank's gradients and elements, so that sampling does not gather all of them for each token. Invariants: gathered
// values are the same bits on all ranks; all ranks make the same calls and compute the same within a scope; what is not
// trained stays whole. Errors: ValueError for a parameter that is not f32, for states that do not fit, and for a
// parameter that is read outside of a scope; those of the device and of distributed/errors.h. Thread safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/graph/lender.h"
#include "heddle/nn/module.h"
#include "heddle/train/config.h"
#include "heddle/train/replicas.h"
#include "heddle/train/shard_layout.h"

namespace heddle::train {

// Whether ranks, or one process that computes in parts as ranks would, share parameters.
bool shares_parameters(const Config& config, const Replicas* replicas);

// Where whole values go: no device has to hold all of a model.
DeviceContext& device_of_whole_values();

// What a checkpoint says of them, there; of ranks that write no file, nothing.
struct WholeParameters {
  nn::StateDict model, average;
};

class ShardedParameters final : public Lender {
 public:
  // All outlive it. The parameters have no values from now on.
  ShardedParameters(nn::Module& model, const ShardLayout& layout, const Config& config, Replicas& replicas);

  uint64_t bytes_of(size_t group) const override;
  bool keeps() const override { return keeps_; }
  void fetch(size_t group) override;
  void lend(size_t group) override;
  void take_back(size_t group) override;

  // This rank's elements, in the order of its shards; one that says nothing where there is none.
  const std::vector<float>& own() const { return own_; }
  // Behind an update; the averages follow.
  void set_own(std::vector<float> own);

  // By all ranks together: whole values, for who asks for them, and of the first rank's the SHA-256 that
  // parameters_sha256() gives.
  WholeParameters gathered(bool mine);
  std::string sha256(const WholeParameters& whole);
  // The model's state with averages in the place of parameters, where there are any.
  nn::StateDict evaluated(const WholeParameters& whole) const;
  // Of the parameters as they were given.
  const std::string& first_sha256() const { return first_sha256_; }
  // Takes the own elements of whole states. Strict, as Module::load_state_dict(); averages may be empty.
  void load(const nn::StateDict& model, const nn::StateDict& average);

 private:
  friend class ParametersScope;
  struct Group {
    std::vector<float> values;  // on their way
    distributed::Ticket arrival;
    bool under_way = false, lent = false;
    bool stays = false;  // there is room for it
  };

  void take_values();
  std::vector<float> part_of(const std::vector<float>& own, size_t group) const;
  std::vector<float> whole(const std::vector<float>& own, size_t group);
  nn::StateDict whole_states(const std::vector<float>& own, bool mine);
  void take_own(const Tensor& whole, size_t parameter, std::vector<float>& own) const;
  void update_average();
  void drop(size_t group);
  void let_arrive();  // of other values than those that are wanted now, asked for and not read

  nn::Module& model_;
  const ShardLayout& layout_;
  Replicas& replicas_;
  bool keeps_;
  double decay_;  // of averages; 0: none
  std::vector<Tensor> parameters_;
  std::vector<nn::Shard> shards_;
  std::vector<float> own_, average_;
  int64_t averaged_ = 0;  // updates
  bool lends_average_ = false;
  uint64_t room_ = 0;  // for buckets that nobody reads now
  std::vector<Group> groups_;
  std::string first_sha256_;
};

// While alive, this thread's evaluations see the parameters; beside training their averages, where there are any. Not
// to be nested. Null: nothing.
class ParametersScope {
 public:
  enum class Use : uint8_t { training, evaluation };
  ParametersScope(ShardedParameters* parameters, Use use);
  ~ParametersScope();
  ParametersScope(const ParametersScope&) = delete;
  ParametersScope& operator=(const ParametersScope&) = delete;

 private:
  ShardedParameters* parameters_;
  LenderScope lender_;
};

}  // namespace heddle::train
