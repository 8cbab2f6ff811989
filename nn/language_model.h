// Language models by description: what a model file has to say besides weights, so that it can be used without the
// program that trained it.
//
//   save_safetensors(path, gpt.state_dict(), {{"model", nn::describe(gpt.options())}, {"tokenizer",
//   tokenizer->str()}}); const nn::LanguageModel model(file.metadata.at("model"), device);
//   model.module().load_state_dict(file.tensors);
//   const auto decoder = model.decoder();
//
// Errors: ValueError for a description that is none, those of Module::load_state_dict. Thread safety: none.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "heddle/nn/decoder.h"

namespace heddle::nn {

// JSON: {"type": "gpt", "vocabulary": 65, ...}, {"type": "llama", ...}, {"type": "recurrent", ...}.
std::string describe(const GptOptions& options);
std::string describe(const LlamaOptions& options);
std::string describe(const RecurrentLmOptions& options);

struct DecoderOptions {
  int64_t batch = 1;    // sequences at a time
  bool cache = true;    // false (Gpt and Llama): everything is read again for each token
  int64_t context = 0;  // of a Llama's cache, in positions; 0: the model's
};

class LanguageModel {
 public:
  // In evaluation mode, with weights of its own that load_state_dict() has to fill.
  explicit LanguageModel(const std::string& description, DeviceRef device = {});
  // Of a model that there is; its mode stays.
  explicit LanguageModel(std::shared_ptr<Gpt> model);
  explicit LanguageModel(std::shared_ptr<Llama> model);
  explicit LanguageModel(std::shared_ptr<RecurrentLm> model);
  std::string description() const;
  Module& module() const;
  int64_t vocabulary() const;
  // ValueError for a recurrent model without a cache.
  DecoderPtr decoder(const DecoderOptions& options = {}) const;

 private:
  std::shared_ptr<Gpt> gpt_;  // one of the three
  std::shared_ptr<Llama> llama_;
  std::shared_ptr<RecurrentLm> recurrent_;
};

}  // namespace heddle::nn
