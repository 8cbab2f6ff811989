// Inputs that readers read to their end: what mutation begins with.
#pragma once

#include <string>
#include <vector>

#include "heddle/nn/models/llama.h"

namespace heddle::fuzz {

using Seeds = std::vector<std::string>;

Seeds safetensors_seeds();
Seeds npy_seeds();
Seeds npz_seeds();
Seeds idx_seeds();
Seeds cifar_seeds();
Seeds png_seeds();
Seeds jpeg_seeds();
Seeds csv_seeds();
Seeds records_seeds();
Seeds json_seeds();
Seeds tokenizer_seeds();
Seeds tokenizer_json_seeds();
Seeds merges_seeds();
Seeds preprocessing_seeds();
Seeds table_code_seeds();
Seeds transform_seeds();
Seeds toml_seeds();
Seeds config_value_seeds();
Seeds numbers_seeds();
Seeds words_seeds();
Seeds kernel_file_seeds();
Seeds expression_seeds();
Seeds user_text_seeds();
Seeds einsum_seeds();
Seeds tuning_seeds();
Seeds launch_seeds();
Seeds image_seeds();
Seeds pack_seeds();
Seeds checkpoint_seeds();
Seeds run_state_seeds();
Seeds model_file_seeds();
Seeds language_model_seeds();
Seeds llama_config_seeds();
Seeds report_seeds();
Seeds model_parts_seeds();
Seeds model_image_seeds();
Seeds golden_seeds();
Seeds gguf_seeds();
Seeds torch_seeds();
Seeds adapter_seeds();

// {"token": number, ...} of the 256 bytes, as in vocab.json.
std::string byte_vocabulary();
// What adapters are read for.
nn::Llama adapted_model();
// A file of that name in scratch_folder().
std::string scratch(const char* name);
void write_scratch(const std::string& path, const std::string& content);
// Appends a number's bytes as they lie in memory.
template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace heddle::fuzz
