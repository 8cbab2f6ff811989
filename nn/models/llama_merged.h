// Models with their adapters merged, in files.
//
//   const Gguf base = Gguf::map("smollm2.gguf");
//   nn::Llama model = nn::load_llama(base, "smollm2.gguf", device);
//   const nn::Lora adapters = nn::load_peft("runs/mine/adapter", model);
//   nn::save_merged("merged.gguf", base, "smollm2.gguf", &adapters, {.type = GgmlType::q4_k});
//
// Purpose: what was trained becomes a model of its own, for this library, llama.cpp and transformers. Tensor by tensor:
// no second model is made. Tensors that are not adapted and keep their type are copied as they lie. A GGUF base stays a
// GGUF file with its metadata and tokenizer; a folder of Hugging Face stays one, with all files beside its weights, or
// becomes a GGUF file of its family's architecture, in which rows of queries and keys of llama stand in pairs and the
// norms of Gemma have the 1 of 1 + w in them; what the architecture's files do not say is refused by name.
// Types: matrices get the one that is asked for; vectors are f32. Under Q4_0, Q4_1 and Q4_K the last projection gets
// Q6_K, as llama.cpp does. Where rows are no whole blocks, Q4_K becomes Q4_1 and Q6_K Q8_0, and what fits no block of
// 32 f16. Invariants: a file appears whole or not at all; of a folder, config.json comes last. Errors: ValueError
// "[export] ..." for what a format cannot say, IoError for files. Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/io/gguf.h"
#include "heddle/io/write_gguf.h"
#include "heddle/nn/lora.h"
#include "heddle/nn/models/llama_folder.h"

namespace heddle::nn {

struct MergedForm {
  std::optional<GgmlType> type;  // none: as the base has it
};

// Tensors of each type, as written.
using MergedTypes = std::map<GgmlType, int64_t>;

// `adapters` may be null: the base in another type.
MergedTypes save_merged(const std::string& path, const Gguf& base, const std::string& base_path, const Lora* adapters,
                        const MergedForm& form = {});
// A folder: weights in f32, f16 or bf16. ValueError where `folder` is there already and not empty.
MergedTypes save_merged_folder(const std::string& folder, const LlamaFolder& base, const std::string& base_path,
                               const Lora* adapters, const MergedForm& form = {});
// A folder as a GGUF file. `writer` has what is known besides: tokenizer and chat template.
MergedTypes save_merged_gguf(const std::string& path, const LlamaFolder& base, const Lora* adapters, GgufWriter writer,
                             const MergedForm& form = {});

}  // namespace heddle::nn
