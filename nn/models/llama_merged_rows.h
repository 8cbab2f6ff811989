// Rows of stored matrices with adapters in them. Internal to nn (llama_merged.h, lora_files.h). Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/ggml_types.h"
#include "heddle/nn/lora.h"
#include "heddle/nn/models/llama_weights.h"

namespace heddle::nn {

// A part of a stored tensor, by the name under which nn::Llama asks for it.
struct StoredPart {
  std::string name;
  StoredWeight stored;
};
// By the stored name.
std::map<std::string, std::vector<StoredPart>> parts_of(const LlamaOptions& options, bool fused);

bool is_adapted(const std::vector<StoredPart>& parts, const Lora* adapters);
// Puts the adapted parts in place; `paired`: their rows of queries and keys into GGUF's order.
void put_merged(const std::vector<StoredPart>& parts, const Lora* adapters, const LlamaOptions& options, bool paired,
                std::vector<float>& values);
// Of rows of `heads` heads: row s * size / 2 + i of a head becomes row 2 i + s.
void put_in_pairs(std::vector<float>& rows, int64_t heads, int64_t count);
// Heads of a matrix whose rows stand in pairs; 0: of none.
int64_t heads_of(const std::string& name, const LlamaOptions& options);

// Of f32, f16 or bf16.
GgmlType ggml_type_of(DType dtype);
// What `wanted` becomes for a tensor of that shape; read llama_merged.h.
GgmlType fitting_type(GgmlType wanted, const Shape& shape, bool is_last);

}  // namespace heddle::nn
