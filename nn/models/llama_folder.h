// Folders of Hugging Face: config.json beside model.safetensors, or beside model.safetensors.index.json and the files
// that it names.
//
//   const nn::LlamaFolder folder("SmolLM2-135M");
//   nn::Llama model = folder.load(device);
//
// Purpose: the families of nn/models/llama_families.h with the weights that were published. Files are mapped, and
// weights keep their dtype, f32, f16 or bf16: where a device has the host's memory it reads them in the file
// (io/file_tensor.h). What Phi 3 keeps one below the other is cut into views of its rows. An lm_head.weight beside tied
// embeddings and rotary frequencies, which old files have, are left out. The matrices of the layers may be packed in
// blocks on the way (core/base/ggml_quantise.h). Invariants: names and shapes of all tensors
// are compared with the config before any is made; files that the index names lie in the folder itself, under plain
// names, and are no links. Errors: IoError "[llama_folder] path: ..." in one line: missing tensors, those of other
// shapes and those that no such model has, all named; other dtypes; names of files that lead elsewhere. Thread safety:
// reading is const.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/base/ggml_types.h"
#include "heddle/core/device/device_ref.h"
#include "heddle/io/safetensors_map.h"
#include "heddle/nn/models/llama.h"
#include "heddle/nn/models/llama_families.h"

namespace heddle::nn {

// Whether there is a config.json in it.
bool is_llama_folder(const std::string& path);

class LlamaFolder {
 public:
  explicit LlamaFolder(const std::string& path);
  LlamaFolder(LlamaFolder&&) = default;  // what is mapped stays where it is
  LlamaFolder& operator=(LlamaFolder&&) = default;
  // Tokens that end a text are those of generation_config.json, where that file has some.
  const LlamaConfig& config() const { return config_; }
  // A tensor by the name that the files have for it; a view of the mapped file. IoError for one that is not there.
  const TensorBytes& stored(const std::string& name) const;
  // In evaluation mode. With a type of blocks the matrices of the layers are packed so; embeddings, the last
  // projection, norms and biases stay as they are. On a blank device (core/device/blank_device.h) no weights are read.
  // ValueError where rows are no whole blocks, or a weight is not finite.
  Llama load(DeviceRef device = {}, std::optional<GgmlType> blocks = {}) const;

 private:
  struct Place {
    const SafetensorsMap* file;
    const TensorBytes* tensor;
  };
  void read_config();
  void open_files();
  void open_file(const std::string& name);
  void refuse_link(const std::string& name) const;
  void check_index(const std::map<std::string, std::string>& file_of) const;
  void check_tensors() const;
  [[noreturn]] void fail(const std::string& what) const;

  std::string path_;
  LlamaConfig config_;
  std::map<std::string, SafetensorsMap> files_;
  std::map<std::string, Place> tensors_;
};

}  // namespace heddle::nn
