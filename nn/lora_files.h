// Adapters in files: PEFT's folders, and GGUF files for llama.cpp.
//
// A folder of PEFT holds adapter_config.json and adapter_model.safetensors. Purpose: what is trained here goes on
// there, and the reverse. A merged model is a state (Lora::merged_state()) for save_safetensors(). Invariants: each
// file appears whole or not at all, the configuration last; a folder that is read is compared with the model before the
// model is touched. Errors: IoError "[peft] path: ..." in one line for files that are missing, broken, of another
// method or that do not fit the model; ValueError for what a format cannot say. Thread safety: none.
#pragma once

#include <string>

#include "heddle/nn/lora.h"
#include "heddle/nn/models/llama.h"

namespace heddle::nn {

// `base`: the model's name or path, which PEFT loads it by; `digest`: its digest_of() (nn/models/llama_digest.h), which
// the metadata of adapter_model.safetensors keep as "heddle.base". Both may be empty.
void save_peft(const std::string& folder, const Lora& lora, const std::string& base = {},
               const std::string& digest = {});
// Adapters of type LORA on linear layers; rank, alpha, dropout, rsLoRA and DoRA are the file's. Values of 16 bits
// become f32. Refused, by name: other methods, trained biases, whole modules beside the adapters, ranks or alphas that
// differ between layers.
//
// `digest`: the model's; where the folder has that of another, IoError "[adapter] path: ..." with both. Folders of PEFT
// have none.
Lora load_peft(const std::string& folder, const Module& model, const std::string& digest = {});
// The same with the model's own digest.
Lora load_peft(const std::string& folder, const Llama& model);

// A GGUF file of type "adapter", in f32: `llama-cli --lora FILE`. `architecture` is the base's name in GGUF, without
// which llama.cpp does not take it. For llama B's rows of queries and keys are put into GGUF's order, as those of the
// weights (nn/models/llama_gguf.h). ValueError for adapters with lacks_gguf(), and for adapted modules that llama.cpp
// has no name for.
void save_gguf_adapter(const std::string& path, const Lora& lora, const LlamaOptions& options,
                       const std::string& architecture = "llama");
// Why such adapters have no form in GGUF; empty: they have one.
std::string lacks_gguf(const Lora& lora, const std::string& architecture);

}  // namespace heddle::nn
