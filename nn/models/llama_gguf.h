// Llamas, and families of their kind, in GGUF files.
//
//   const Gguf file = Gguf::map(path);
//   nn::Llama model = nn::load_llama(file, path, device);
//
// Purpose: the options that a file's metadata give, and its weights, whose blocks stay packed on the device or become
// numbers. Read are the architectures gemma2, gemma3, llama (Mistral's files too), phi3, qwen2 and qwen3. Of llama the
// rows of queries and keys stand in pairs of neighbours; they are put into Hugging Face's order, whole rows of blocks
// at a time. Llama 3.1's stretched rotary positions come from rope_freqs.weight. Invariants: names and shapes of all
// tensors are compared with the metadata before anything is made of them. Errors: IoError "[gguf] path: ..." in one
// line: another architecture, sizes that do not fit, tensors that are missing, of another shape, or of no such model
// (all named), rotary positions that are scaled in another way. Thread safety: none.
#pragma once

#include <string>

#include "heddle/core/device/device_ref.h"
#include "heddle/io/gguf.h"
#include "heddle/nn/models/llama.h"

namespace heddle::nn {

// Checked against the tensors.
LlamaOptions llama_options(const Gguf& file, const std::string& path);

// packed: blocks stay as they are, where the file is mapped and the device has the host's memory in the file itself
// (io/file_tensor.h); other tensors keep their dtype. rounded: the same, and what is multiplied with blocks is rounded
// to 8 bits first, as llama.cpp does, whose tokens it is to give. unpacked: all are f32.
enum class GgufWeights : uint8_t { packed, rounded, unpacked };
// In evaluation mode. On a blank device (core/device/blank_device.h) nothing but the file's front is read.
Llama load_llama(const Gguf& file, const std::string& path, DeviceRef device = {},
                 GgufWeights how = GgufWeights::packed);

}  // namespace heddle::nn
