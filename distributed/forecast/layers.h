// StepLayers: a training step as layers with what each costs, the one thing that a forecast knows of a model.
//
// Purpose: a block is what a stage of a pipeline holds whole, a layer one product (or what has none) with what lies
// around it. Costs are of one example, of all that tensor and context parallelism divide. Invariants: blocks stand in
// the order of the forward pass. Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "heddle/distributed/forecast/machine.h"

namespace heddle::distributed {

// What tensor parallelism divides (Shoeybi et al. 2019, "Megatron-LM", section 3): nothing, each rank computes the
// same; the columns of a product and so its result; its rows, so that results are summed; attention by heads; an
// embedding or a last projection by the vocabulary.
enum class Split : uint8_t { none, columns, rows, heads, vocabulary };

struct Layer {
  std::string path = {};
  Split split = Split::none;
  int64_t parameters = 0;
  int64_t whole_parameters = 0;  // of those, what every rank keeps although the layer is split: biases behind sums
  int64_t tied_parameters = 0;   // of another layer, which a pipeline keeps here as well

  double flops = 0;           // of products, forward
  double backward_flops = 0;  // of gradients of inputs and weights
  double weight_flops = 0;    // of those, of weights
  ProductSizes product = {};  // rows: of one example

  double kept = 0;     // bytes that the backward pass reads
  double traffic = 0;  // bytes that the forward pass moves outside of products; the backward pass twice as many
  double reduced = 0;  // bytes that split ranks sum in the forward pass
  double backward_reduced = 0;
  double exchanged = 0;  // bytes of keys and values that ranks of a context gather
};

struct Block {
  std::string name = {};
  std::vector<Layer> layers = {};
  double input = 0, output = 0;  // bytes that go in and come out
  bool recomputes = false;       // keeps its input alone; the backward pass computes it again
};

struct StepLayers {
  std::string name = {};
  std::vector<Block> blocks = {};
  DType dtype = DType::f32;                                        // of products
  int64_t heads = 0, key_heads = 0, vocabulary = 0, sequence = 0;  // 0: no transformer, so no tp or cp
  bool splits_rows_between = false;  // sequence parallelism: what tp does not split is split by positions
  // Stages keep inputs of blocks and compute the blocks again, but of zb1p; training does on request alone
  // (PipelineOptions::recompute, train/pipeline.h).
  bool stages_recompute = false;
  // What training does today: gradients of parts of a model, as those under zero1, are sent when the backward pass is
  // over (train/model_parallel/mesh_step.h, train/sharded_step.h); zero2 and zero3 go by buckets of parameters.
  bool as_trained = false;
  // Bytes of a parameter: itself, its gradient, the optimizer's states with a copy in f32 where there is one.
  double parameter_bytes = 4, gradient_bytes = 4, state_bytes = 8;
  int64_t shared_values = 0;  // that ranks average besides gradients: losses, running statistics, wishes
};

// Sums over all blocks.
int64_t parameters_of(const StepLayers& step);
// Of an example, forward and backward, without what is computed again.
double model_flops_of(const StepLayers& step);
// The same with what is computed again.
double hardware_flops_of(const StepLayers& step);

}  // namespace heddle::distributed
