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
#include "heddle/io/sha256.h"
#include "heddle/nn/models/llama_digest.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view prefix = "base_model.model.";
constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";
constexpr const char* base_key = "heddle.base";  // in the metadata of the weights, which PEFT does not read

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

void check_base(const std::string& file, const Metadata& metadata, const std::string& digest) {
  const auto found = metadata.find(base_key);
  if (found == metadata.end() || digest.empty() || found->second == digest) return;
  if (!parse_sha256(found->second))
    fail(file, fmt::format("{} is '{}', no SHA-256", base_key, shortened(found->second)));
  throw IoError(fmt::format(
      "[adapter] {}: it was trained beside another model ({:.8}, this is {:.8}); {} beside it names its own", file,
      found->second, digest, config_name));
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

void save_peft(const std::string& folder, const Lora& lora, const std::string& base, const std::string& digest) {
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
  Metadata metadata{{"format", "pt"}};
  if (!digest.empty()) metadata[base_key] = digest;
  save_safetensors(in(folder, weights_name), TensorMap(state.begin(), state.end()), metadata);
  write_file_atomically(in(folder, config_name), config.dump(2) + "\n");
}

Lora load_peft(const std::string& folder, const Llama& model) {
  return load_peft(folder, static_cast<const Module&>(model), digest_of(model));
}

Lora load_peft(const std::string& folder, const Module& model, const std::string& digest) {
  LoraOptions options = ConfigReader(in(folder, config_name)).read();
  const std::string file = in(folder, weights_name);
  const SafetensorsBytes saved = read_safetensors(file);
  const std::set<std::string> paths = paths_in(file, saved.tensors);
  check_tensors(file, saved.tensors, wanted(file, paths, options, model));
  check_base(file, saved.metadata, digest);
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

}  // namespace heddle::nn
