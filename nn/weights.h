// Weights of other models and libraries: names, partial loading, and parameters that are not trained.
//
//   nn::ResNet model(nn::resnet18(10), {.device = device});
//   const auto saved = load_safetensors("resnet18.safetensors", &device).tensors;              // as torchvision saves
//   it std::cout << nn::load_matching(model, nn::from_torchvision(saved), {"fc.*"}).str();        // all but the head
//   nn::freeze(model, "*");  nn::unfreeze(model, "fc.*");
//
// Patterns are those of a shell, over whole paths: * (any characters, dots too), ?, [...]. Thread safety: as modules':
// none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle::nn {

// Parameters whose path fits get no gradient from now on, so that optimizers leave them as they are; returns how many.
// Statistics of batch norms move in train() all the same: what must not move also needs eval(). ValueError for a
// pattern that fits none, with the names that there are.
int64_t freeze(const Module& module, const std::string& pattern);
int64_t unfreeze(const Module& module, const std::string& pattern);

// What load_matching() did, by name and in the order of names.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> excepted;    // of the module, by a pattern: as before
  std::vector<std::string> missing;     // of the module, and not in the state
  std::vector<std::string> unexpected;  // in the state, and not of the module
  std::vector<std::string> mismatched;  // "fc.weight: (10, 512) f32 here, (1000, 512) f32 in the state"
  std::string str() const;              // one line each
};
// Copies what fits in name and shape; values of another floating dtype are cast. What does not fit stays as it was and
// is reported, as are names that fit one of `except`.
LoadReport load_matching(Module& module, const StateDict& state, const std::vector<std::string>& except = {});

// A state that torchvision's ResNet, MobileNetV2 or VisionTransformer saved, for load_state_dict(): the names are the
// same; counters of batches, which no formula reads, are left out. The other way nothing is to be done: PyTorch loads a
// state without them.
StateDict from_torchvision(StateDict saved);

// A state of GPT-2 for nn::Gpt: as Hugging Face saves it (GPT2Model or GPT2LMHeadModel: "transformer." in front or not,
// weights of projections (in, out)), or as nanoGPT does
// ((out, in)). The form is read off the shape of c_attn. Masks that are saved with it, and an lm_head that is the token
// embedding again, are left out. ShapeError where a c_attn has neither form.
StateDict from_gpt2(const StateDict& saved);
// The state of an nn::Gpt as Hugging Face's GPT2Model saves it: projections (in, out).
StateDict to_gpt2(const StateDict& state);

}  // namespace heddle::nn
