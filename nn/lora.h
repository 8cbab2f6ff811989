// Lora: adapters of low rank beside the frozen weights of a model.
//
//   nn::Llama model = nn::load_llama(file, path, device);                              // packed weights stay packed
//   nn::Lora adapters(model, {.rank = 16, .alpha = 32, .targets = {"*.q_proj", "*.v_proj"}});
//   nn::AdamW optimizer(adapters.parameters(), {.lr = 2e-4});
//
// Purpose: of a module with a weight W (out, in), a Linear or a Projection of any kind, the result y = W x + b becomes
// y + scale B (A dropout(x)), A (rank, in) and B (out, rank); scale is alpha / rank (Hu et al. 2021, "LoRA") or alpha /
// sqrt(rank) (Kalajdzievski 2023, "A rank stabilization scaling factor for fine-tuning with LoRA"). First values as
// PEFT's: A as a Linear's weight, B zero, so that nothing changes at first. With `dora` (Liu et al. 2024, "DoRA") the
// rows of W + scale B A are brought to the lengths m, which are trained too and are at first those of W; the lengths
// before count as constant for gradients, as the paper's section 4.3 has it.
//
// Invariants: a module of its own, whose parameters are the adapters' under PEFT's names
// ("base_model.model.<path>.lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"), in f32; state_dict() is what
// PEFT saves. The model's parts, names and state stay as they are: adapters are hooks on its modules
// (Module::register_forward_hook) and act where these are called as module(x). All parameters of the model are frozen
// (unfreeze() of nn/weights.h for what shall be trained beside). Dropout asks the adapted module's training().
// Gradients go through products of `rank` columns, so no (out, in) is made, and packed weights stay packed. With
// `dora`, the lengths of W's rows are taken when the adapters are made: load weights first. Errors: ValueError "[Lora]
// ...". Thread safety: none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle::nn {

struct LoraOptions {
  int64_t rank = 8;
  double alpha = 8;
  bool rank_stabilised = false;  // scale alpha / sqrt(rank)
  bool dora = false;
  double dropout = 0;                                        // of the adapters' inputs
  std::vector<std::string> targets{"*.q_proj", "*.v_proj"};  // patterns of a shell over whole paths (core/base/glob.h)
  Generator* generator = nullptr;                            // null: the process's
};

// A module that can be adapted, and what its weight means.
struct Adaptable {
  std::string path;
  Shape shape;  // (out, in), packed or not
};
std::vector<Adaptable> adaptable(const Module& model);

class Lora : public Module {
 public:
  // Patterns choose among modules of kind Linear and Projection; ValueError for one that fits none of them, and for a
  // rank, alpha or dropout that cannot be meant.
  explicit Lora(Module model, const LoraOptions& options = {});

  const LoraOptions& options() const;
  const Module& model() const;
  double scale() const;
  // Of the adapted modules, in the model.
  std::vector<std::string> paths() const;
  // Without adapters the model computes as before; they keep their values.
  void enable(bool on = true);

  // The model's state with the adapters in its weights: names and dtypes are the model's, but packed weights, adapted
  // or not, are f32 (out, in).
  StateDict merged_state() const;
  // That weight of one adapted module, in f32, for those who write a model tensor by tensor. ValueError for a path that
  // is not adapted.
  Tensor merged_weight(const std::string& path) const;
  // Adds the adapters to the model's weights and switches them off. ValueError where a weight is packed: load
  // merged_state() into a model in floating point.
  void merge();

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace heddle::nn
