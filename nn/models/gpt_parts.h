// GptParts: what one rank has of a Gpt whose heads, widths, positions and blocks lie on several ranks.
//
//   nn::GptParts mine(gpt, {.tensor = {2, place}, .blocks = {{0, 4}}});
//   const Tensor loss = mine.loss(mine.run(mine.embed(tokens), {0, 4}, length), targets);   // in a program
//
// Purpose: the same numbers as the whole model's, for functions that every rank runs (distributed/shard_map.h). Along
// the axis "tp" a rank has some heads of each attention and some columns and rows of each MLP, behind which results are
// summed (nn/tensor_parallel.h; Shoeybi et al. 2019, "Megatron-LM"), and of the vocabulary its tokens where that is
// asked for. Along "cp" it has some positions of each sequence (nn/context_parallel.h). Along "ep" it has some experts
// of each mixture and sequences of its own (nn/expert_parallel.h). With sequence_parallel ranks along "tp" have some
// positions each of what lies between layers: a reduce_scatter stands where the sum did, an all_gather before the next
// layer in parts (Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer Models", section 4).
// Of the blocks it has stretches; the token table, which the first stage reads and the last one multiplies by, is on
// both. Invariants: parameters have the names of Gpt's and are parts of its values (cut_of()); nothing is sent where an
// axis has one rank, and no program of ranks is needed then. Errors: ValueError for heads and experts that the ranks do
// not divide, for experts along another axis than "ep" and for dropout along "cp"; ShapeError for positions that the
// ranks do not divide; AxisError outside of a program of ranks. Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/functions/random/generator.h"
#include "heddle/nn/expert_parallel.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/models/gpt.h"
#include "heddle/nn/norm.h"
#include "heddle/nn/parameter_cut.h"

namespace heddle::nn {

// Blocks [first, second).
using BlockRange = std::pair<int64_t, int64_t>;

struct GptPlace {
  CutPlace tensor = {};     // along "tp"
  CutPlace positions = {};  // along "cp"
  CutPlace experts = {};    // along "ep"
  // Along which ranks have other tokens: "ep" and, beside it, "dp". Losses are means over them then, and gradients the
  // share of the rank's own tokens: their sums, of experts along "dp" alone, are the caller's.
  std::vector<std::string> batch_axes = {};
  // In training each rank's tokens are a batch by itself, a part of a larger one (train/batch_parts.h): losses are of
  // the rank's own tokens, and gradients of experts come by the rank that sent the rows
  // (ExpertParallelMixture::begin_apart()): their sum along "ep" is the caller's as well.
  bool apart = false;
  bool vocabulary_in_parts = false;  // whose tokens the ranks along "tp" divide then
  // Between layers a rank along "tp" has some positions instead of all: its stretch of the rows of all sequences, one
  // after the other, which the ranks divide. What such ranks share then varies along "tp" as well: gradients are those
  // of the rank's own rows, and their sum is the caller's.
  bool sequence_parallel = false;
  std::vector<BlockRange> blocks = {};
  bool embeds = true, projects = true;  // has the tables that tokens begin with; the last norm and the projection

  // Along which what lies between layers varies.
  std::vector<std::string> axes_between_layers() const;
};

// How ranks along "tp" cut a parameter of Gpt, by its name.
ParameterCut gpt_cut(const std::string& name, bool vocabulary_in_parts);

// A rank's part of a GptBlock.
class GptBlockParts : public Module {
 public:
  // `part`: gives the rank's elements of a parameter of the block, by its name below the block.
  GptBlockParts(const GptOptions& options, const GptPlace& place, const Callable<Tensor(const std::string&)>& part);
  // (B, T, C), the same along "tp"; or the rank's rows (B T / tp, C) of sequences of of_length().
  Tensor forward(const Tensor& x) override;
  GptBlockParts& of_length(int64_t length) {
    length_ = length;
    return *this;
  }
  // Where there are experts; else null.
  ExpertParallelMixture* mixture() const { return mixture_.get(); }

 private:
  Tensor attended(const Tensor& x);
  Tensor attend(const Tensor& queries, const Tensor& keys, const Tensor& values);
  Tensor grown(const Tensor& x);
  Tensor whole(const Tensor& x) const;
  Tensor row_product(const Tensor& x, const Linear& layer) const;
  const Tensor& typed(const Tensor& part) const;

  CutPlace tensor_, positions_;
  bool sequence_parallel_;
  int64_t length_ = 0;  // where rows are shared out
  int64_t heads_;
  double dropout_;
  bool tanh_gelu_;
  Generator own_;  // of masks of the rank's heads
  LayerNorm ln_1_, ln_2_;
  std::optional<Linear> c_attn_, attn_proj_;
  std::optional<Linear> c_fc_, mlp_proj_;           // these, or
  std::shared_ptr<ExpertParallelMixture> mixture_;  // where there are experts
};

class GptParts : public Module {
 public:
  // The parts lie where the model does. `whole` may go afterwards.
  GptParts(const Gpt& whole, GptPlace place);

  // Tokens (B, T), of which the rank takes its positions: between_layers().
  Tensor embed(const Tensor& tokens);
  // `length`: T, of the tokens that x comes from.
  Tensor run(const Tensor& x, const BlockRange& blocks, int64_t length);
  // What goes from layer to layer on this rank for tokens (B, T): (B, T / cp, C), or (B T / cp / tp, C).
  Shape between_layers(const Shape& tokens) const;
  // Cross entropy of the next tokens, targets (B, T), rank 0, the same on all ranks; smoothing in [0, 1), above 0 only
  // of a whole vocabulary.
  Tensor loss(const Tensor& x, const Tensor& targets, double smoothing = 0);
  // loss() of all blocks, of a rank that has them.
  Tensor whole_loss(const Tensor& tokens, const Tensor& targets, double smoothing = 0);

  ParameterCut cut_of(const std::string& name) const;
  // The gradient of a parameter, by its name; (n, ...) of experts in a pass that is apart.
  Tensor gradient_of(const std::string& name, const Tensor& parameter) const;
  // Whose part the rank has of what is cut.
  const CutPlace& cut_place() const { return place_.batch_axes.empty() ? place_.tensor : place_.experts; }
  const GptPlace& place() const { return place_; }

 private:
  static bool is_of_experts(const std::string& name);
  void begin_pass();
  Tensor own_positions(const Tensor& tokens) const;
  Tensor embedded(const Tensor& tokens);
  const Tensor& typed_table();

  GptOptions options_;
  GptPlace place_;
  Tensor wte_, wpe_;
  std::map<int64_t, GptBlockParts> blocks_;
  LayerNorm ln_f_;
};

}  // namespace heddle::nn
