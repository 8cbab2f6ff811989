// Adapters as GGUF files (nn/lora_files.h).
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/ggml_quantise.h"
#include "heddle/io/write_gguf.h"
#include "heddle/nn/lora_files.h"
#include "heddle/nn/models/llama_gguf_options.h"
#include "heddle/nn/models/llama_merged_rows.h"

namespace heddle::nn {

std::string lacks_gguf(const Lora& lora, const std::string& architecture) {
  if (lora.options().dora) return "adapters of DoRA have no form in GGUF; export the merged model instead";
  if (architecture == "phi3") return "adapters of Phi 3 have no form in GGUF, where projections of an input are one";
  return {};
}

void save_gguf_adapter(const std::string& path, const Lora& lora, const LlamaOptions& options,
                       const std::string& architecture) {
  if (const std::string why = lacks_gguf(lora, architecture); !why.empty())
    throw ValueError(fmt::format("[gguf] {}", why));
  const bool paired = architecture == "llama";
  const NoGradScope no_grad;
  const StateDict state = lora.state_dict();
  const auto rank = static_cast<double>(lora.options().rank);
  GgufWriter writer;
  writer.add("general.architecture", architecture);
  writer.add("general.type", "adapter");
  writer.add("adapter.type", "lora");
  // llama.cpp divides by the rank.
  writer.add("adapter.lora.alpha", static_cast<float>(lora.scale() * rank));
  std::map<std::string, std::pair<Shape, std::vector<uint8_t>>> tensors;  // live until the file is written
  for (const std::string& module : lora.paths()) {
    const std::string name = gguf_name(module + ".weight", options);
    // Rows of an embedding are read, not multiplied with.
    if (name.empty() || module == "model.embed_tokens")
      throw ValueError(fmt::format("[gguf] {} is adapted, which llama.cpp has no name for", module));
    const std::string ours = fmt::format("base_model.model.{}", module);
    const Tensor &a = state.at(ours + ".lora_A.weight"), &b = state.at(ours + ".lora_B.weight");
    std::vector<float> rows = b.to_vector<float>();
    const int64_t heads = paired ? heads_of(module + ".weight", options) : 0;
    if (heads > 0) put_in_pairs(rows, heads, b.dim(0));
    tensors[name + ".lora_a"] = {a.shape(), a.to_bytes()};
    tensors[name + ".lora_b"] = {b.shape(), quantise(GgmlType::f32, rows)};
  }
  for (const auto& [name, tensor] : tensors) writer.add_tensor(name, GgmlType::f32, tensor.first, tensor.second);
  writer.write(path);
}

}  // namespace heddle::nn
