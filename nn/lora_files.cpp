#include "heddle/nn/lora_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/device/context.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/read_file.h"
#include "heddle/io/safetensors.h"
#include "heddle/io/write_gguf.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view prefix = "base_model.model.";
constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";

std::string in(const std::string& folder, const char* name) { return (fs::path(folder) / name).string(); }

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  throw IoError(fmt::format("[peft] {}: {}", path, what));
}

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

// Last names where these choose the adapted modules and no others, as PEFT reads them; else whole paths.
std::vector<std::string> target_modules(const Lora& lora) {
  const std::vector<std::string> paths = lora.paths();
  std::set<std::string> names;
  for (const std::string& path : paths) names.insert(last_name(path));
  size_t chosen = 0;
  for (const Adaptable& one : adaptable(lora.model())) chosen += names.contains(last_name(one.path)) ? 1 : 0;
  return chosen == paths.size() ? std::vector<std::string>(names.begin(), names.end()) : paths;
}

Json number(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e9;
  return whole ? Json(static_cast<int64_t>(value)) : Json(value);
}

class ConfigReader {
 public:
  explicit ConfigReader(const std::string& path) : path_(path) {
    const std::vector<uint8_t> bytes = read_file(path, "peft");
    json_ = parse_unique_json(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
                              fmt::format("[peft] {}", path));
    if (!json_.is_object()) fail(path_, "it is no object of JSON");
  }

  LoraOptions read() const {
    check_method();
    LoraOptions o;
    o.rank = static_cast<int64_t>(number("r", 1, static_cast<double>(most_size), 8));
    if (o.rank != number("r", 1, static_cast<double>(most_size), 8)) fail(path_, "r is no whole number");
    o.alpha = number("lora_alpha", -1e12, 1e12, 8);
    o.dropout = number("lora_dropout", 0, 1, 0);
    if (o.dropout >= 1) fail(path_, "lora_dropout is 1; expected less");
    o.rank_stabilised = flag("use_rslora");
    o.dora = flag("use_dora");
    return o;
  }

 private:
  const nlohmann::json* find(const char* key) const {
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  bool flag(const char* key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return false;
    if (!value->is_boolean()) fail(path_, fmt::format("{} is neither true nor false", key));
    return value->get<bool>();
  }
  double number(const char* key, double least, double most, double usual) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return usual;
    if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most))
      fail(path_, fmt::format("{} is {}; expected a number from {} to {}", key, shortened(value->dump()), least, most));
    return value->get<double>();
  }

  void check_method() const {
    const nlohmann::json* type = find("peft_type");
    if (type == nullptr || *type != "LORA")
      fail(path_, fmt::format("peft_type is {}; read is LORA", type == nullptr ? "missing" : shortened(type->dump())));
    const nlohmann::json* bias = find("bias");
    if (bias != nullptr && *bias != "none") fail(path_, "it has trained biases (bias); read are adapters alone");
    // What changes names, values or arithmetic. PEFT writes null, false, {} or [] where it is not in use.
    for (const char* key :
         {"rank_pattern", "alpha_pattern", "modules_to_save", "layer_replication", "lora_bias", "fan_in_fan_out",
          "target_parameters", "trainable_token_indices", "use_qalora", "use_bdlora", "megatron_config",
          "alora_invocation_tokens", "arrow_config", "kasa_config", "monteclora_config", "velora_config"}) {
      const nlohmann::json* value = find(key);
      const bool off =
          value == nullptr || *value == false || ((value->is_object() || value->is_array()) && value->empty());
      if (!off) fail(path_, fmt::format("{} is {}, which is not read", key, shortened(value->dump())));
    }
  }

  std::string path_;
  nlohmann::json json_;
};

// Shapes that adapters of these paths have, by PEFT's names.
std::map<std::string, Shape> wanted(const std::string& file, const std::set<std::string>& paths, const LoraOptions& o,
                                    const Module& model) {
  std::map<std::string, Shape> shapes;
  std::map<std::string, Shape> known;
  for (const Adaptable& one : adaptable(model)) known[one.path] = one.shape;
  for (const std::string& path : paths) {
    const auto found = known.find(path);
    if (found == known.end())
      fail(file, fmt::format("it adapts '{}', which is no linear layer of {}", shortened(path), model.kind()));
    const std::string name = fmt::format("{}{}", prefix, path);
    shapes[name + ".lora_A.weight"] = {o.rank, found->second[1]};
    shapes[name + ".lora_B.weight"] = {found->second[0], o.rank};
    if (o.dora) shapes[name + ".lora_magnitude_vector"] = {found->second[0]};
  }
  return shapes;
}

std::set<std::string> paths_in(const std::string& file, const TensorBytesMap& tensors) {
  std::set<std::string> paths;
  for (const auto& [name, tensor] : tensors) {
    const size_t dot = name.find(".lora_");
    if (!name.starts_with(prefix) || dot == std::string::npos || dot < prefix.size())
      fail(file,
           fmt::format("it has a tensor '{}'; expected {}PATH.lora_A.weight and its like", shortened(name), prefix));
    paths.insert(name.substr(prefix.size(), dot - prefix.size()));
  }
  if (paths.empty()) fail(file, "it has no tensors");
  return paths;
}

void check_tensors(const std::string& file, const TensorBytesMap& tensors, const std::map<std::string, Shape>& shapes) {
  for (const auto& [name, tensor] : tensors) {
    const auto want = shapes.find(name);
    if (want == shapes.end()) fail(file, fmt::format("it has a tensor '{}', which no adapter has", shortened(name)));
    if (tensor.shape != want->second || !is_float(tensor.dtype))
      fail(file, fmt::format("{} is {} {}; expected {} of floats", shortened(name), tensor.shape.str(),
                             name_of(tensor.dtype), want->second.str()));
  }
  for (const auto& [name, shape] : shapes) {
    if (!tensors.contains(name)) fail(file, fmt::format("{} is missing", shortened(name)));
  }
}

// A pattern that fits this path alone.
std::string escaped(const std::string& path) {
  std::string pattern;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace

void save_peft(const std::string& folder, const Lora& lora, const std::string& base) {
  const LoraOptions& o = lora.options();
  const Json config{{"alpha_pattern", Json::object()},
                    {"auto_mapping", nullptr},
                    {"base_model_name_or_path", base.empty() ? Json(nullptr) : Json(base)},
                    {"bias", "none"},
                    {"fan_in_fan_out", false},
                    {"inference_mode", true},
                    {"init_lora_weights", true},
                    {"layers_pattern", nullptr},
                    {"layers_to_transform", nullptr},
                    {"lora_alpha", number(o.alpha)},
                    {"lora_dropout", o.dropout},
                    {"modules_to_save", nullptr},
                    {"peft_type", "LORA"},
                    {"r", o.rank},
                    {"rank_pattern", Json::object()},
                    {"revision", nullptr},
                    {"target_modules", target_modules(lora)},
                    {"task_type", "CAUSAL_LM"},
                    {"use_dora", o.dora},
                    {"use_rslora", o.rank_stabilised}};
  require_writable_folder(folder);
  const StateDict state = lora.state_dict();
  save_safetensors(in(folder, weights_name), TensorMap(state.begin(), state.end()), {{"format", "pt"}});
  write_file_atomically(in(folder, config_name), config.dump(2) + "\n");
}

Lora load_peft(const std::string& folder, const Module& model) {
  LoraOptions options = ConfigReader(in(folder, config_name)).read();
  const std::string file = in(folder, weights_name);
  const SafetensorsBytes saved = read_safetensors(file);
  const std::set<std::string> paths = paths_in(file, saved.tensors);
  check_tensors(file, saved.tensors, wanted(file, paths, options, model));
  options.targets.clear();
  for (const std::string& path : paths) options.targets.push_back(escaped(path));
  Lora lora(model, options);
  const NoGradScope no_grad;
  for (auto& [name, tensor] : lora.state_dict()) {
    const TensorBytes& value = saved.tensors.at(name);
    Tensor target = tensor;
    const Tensor stored = Tensor::from_bytes(value.bytes.data(), static_cast<size_t>(value.shape.numel()), value.dtype,
                                             value.shape, &target.device());
    target.assign(cast(stored, DType::f32));
  }
  return lora;
}

namespace {

// blk.3.attn_q of model.layers.3.self_attn.q_proj; empty where a Llama of GGUF has no such matrix.
std::string gguf_name(const std::string& path) {
  static const std::map<std::string, std::string, std::less<>> parts = {
      {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"},
      {"self_attn.o_proj", "attn_output"}, {"mlp.gate_proj", "ffn_gate"},  {"mlp.up_proj", "ffn_up"},
      {"mlp.down_proj", "ffn_down"}};
  if (path == "lm_head") return "output";
  constexpr std::string_view front = "model.layers.";
  if (!path.starts_with(front)) return {};
  const size_t dot = path.find('.', front.size());
  if (dot == std::string::npos) return {};
  const auto part = parts.find(path.substr(dot + 1));
  if (part == parts.end()) return {};
  return fmt::format("blk.{}.{}", path.substr(front.size(), dot - front.size()), part->second);
}

// Rows of heads from halves to pairs: row s * size / 2 + i of a head becomes row 2 i + s.
Tensor in_pairs(const Tensor& rows, int64_t heads) {
  const int64_t size = rows.dim(0) / heads, rank = rows.dim(1);
  return reshape(transpose(reshape(rows, {heads, 2, size / 2, rank}), 1, 2), {rows.dim(0), rank});
}

}  // namespace

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
    const std::string name = gguf_name(module);
    if (name.empty()) throw ValueError(fmt::format("[gguf] {} is adapted, which llama.cpp has no name for", module));
    const std::string ours = fmt::format("{}{}", prefix, module);
    const Tensor a = state.at(ours + ".lora_A.weight");
    Tensor b = state.at(ours + ".lora_B.weight");
    if (paired && name.ends_with(".attn_q")) b = in_pairs(b, options.heads);
    if (paired && name.ends_with(".attn_k")) b = in_pairs(b, options.key_heads);
    tensors[name + ".weight.lora_a"] = {a.shape(), a.to_bytes()};
    tensors[name + ".weight.lora_b"] = {b.shape(), b.to_bytes()};
  }
  for (const auto& [name, tensor] : tensors) writer.add_tensor(name, GgmlType::f32, tensor.first, tensor.second);
  writer.write(path);
}

}  // namespace heddle::nn
