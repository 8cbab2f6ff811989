// GGUF files of large Llamas that take no place on the disk: a front that is whole, and zeros behind it that no block
// of the disk holds.
// Thread safety: pure functions.
#pragma once

#include <string>

#include "heddle/core/base/ggml_types.h"
#include "heddle/nn/models/llama_options.h"

namespace heddle::test {

// 32 blocks of width 4,096: 6,738,415,616 parameters.
nn::LlamaOptions llama_7b();
// Matrices are of the type, norms f32; without a tokenizer. Throws std::runtime_error where it cannot be written.
void write_sparse_llama(const std::string& path, const nn::LlamaOptions& options, GgmlType type);

}  // namespace heddle::test
