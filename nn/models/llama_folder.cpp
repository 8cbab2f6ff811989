#include "heddle/nn/models/llama_folder.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <span>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/base/ggml_quantise.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/blank_device.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/io/file_tensor.h"
#include "heddle/io/read_file.h"
#include "heddle/nn/models/blank_weight.h"
#include "heddle/nn/models/config_reader.h"
#include "heddle/nn/models/llama_merged_rows.h"
#include "heddle/nn/models/llama_weights.h"

namespace heddle::nn {
namespace {

constexpr const char* config_name = "config.json";
constexpr const char* generation_name = "generation_config.json";
constexpr const char* whole_name = "model.safetensors";
constexpr const char* index_name = "model.safetensors.index.json";

std::string in_folder(const std::string& folder, std::string_view name) { return fs::path(folder) / fs::path(name); }

bool is_there(const std::string& path) {
  std::error_code code;
  return fs::exists(path, code);
}

// What files have besides weights: frequencies of old Llamas, and the embedding once more where it is the last
// projection.
bool is_left_out(std::string_view name, const LlamaOptions& o) {
  return name.ends_with(".rotary_emb.inv_freq") || (o.tied && name == "lm_head.weight");
}

// "model-00001-of-00002.safetensors": no folders, no drive, nothing hidden.
bool is_plain(std::string_view name) {
  return name.ends_with(".safetensors") && name.find_first_of("/\\:") == std::string_view::npos && name[0] != '.' &&
         std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

// File of each tensor.
std::map<std::string, std::string> read_index(const std::string& path) {
  const nlohmann::json json =
      parse_unique_json(read_text_file(path, "llama_folder"), fmt::format("[llama_folder] {}", path));
  const auto refuse = [&](const std::string& why) { throw IoError(fmt::format("[llama_folder] {}: {}", path, why)); };
  if (!json.is_object() || !json.contains("weight_map") || !json.at("weight_map").is_object())
    refuse("it has no object weight_map");
  std::map<std::string, std::string> file_of;
  for (const auto& [tensor, file] : json.at("weight_map").items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!is_plain(name))
      refuse(fmt::format("the file of {} is {}, expected the plain name of a .safetensors file in the folder",
                         shortened(tensor), shortened(file.dump())));
    file_of[tensor] = name;
  }
  return file_of;
}

bool is_matrix_of_layer(const std::string& name, const Shape& shape) {
  return shape.rank() == 2 && name.find(".layers.") != std::string::npos;
}

Weight packed_weight(const std::string& name, std::span<const uint8_t> bytes, DType dtype, const Shape& shape,
                     GgmlType blocks, DeviceContext& device) {
  const GgmlBlock& block = block_of(blocks);
  if (shape[1] % block.elements != 0)
    throw ValueError(fmt::format("[llama_folder] rows of {} have {} elements, no whole blocks of {} in {}", name,
                                 shape[1], block.elements, block.name));
  const Shape packed = packed_shape(shape, blocks);
  if (is_blank(device)) return {blank_weight(packed, DType::u8, device), blocks};
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  dequantise(ggml_type_of(dtype), bytes, values);
  try {
    const std::vector<uint8_t> made = quantise(blocks, values);
    return {Tensor::from_bytes(made.data(), made.size(), DType::u8, packed, &device), blocks};
  } catch (const ValueError& error) {
    throw ValueError(fmt::format("[llama_folder] {}: {}", name, error.what()));
  }
}

}  // namespace

bool is_llama_folder(const std::string& path) {
  std::error_code code;
  return fs::is_directory(path, code) && is_there(in_folder(path, config_name));
}

LlamaFolder::LlamaFolder(const std::string& path) : path_(path) {
  read_config();
  open_files();
  check_tensors();
}

void LlamaFolder::fail(const std::string& what) const {
  throw IoError(fmt::format("[llama_folder] {}: {}", path_, what));
}

void LlamaFolder::read_config() {
  const std::string path = in_folder(path_, config_name), generation = in_folder(path_, generation_name);
  config_ = llama_config(read_text_file(path, "config"), path);
  if (!is_there(generation)) return;
  const nlohmann::json json =
      parse_unique_json(read_text_file(generation, "config"), fmt::format("[config] {}", generation));
  if (!json.is_object()) throw IoError(fmt::format("[config] {}: it is no JSON object", generation));
  const std::vector<int32_t> ends = ConfigReader(json, generation).tokens("eos_token_id");
  if (!ends.empty()) config_.ends = ends;
}

void LlamaFolder::refuse_link(const std::string& name) const {
  std::error_code code;
  if (fs::directory_entry(fs::path(in_folder(path_, name)), code).is_symlink(code))
    fail(fmt::format("{} is a link, which is not followed: copy the folder with the files themselves", name));
}

void LlamaFolder::open_file(const std::string& name) {
  const SafetensorsMap& file = files_.emplace(name, map_safetensors(in_folder(path_, name))).first->second;
  for (const auto& [tensor, bytes] : file.tensors) {
    if (!tensors_.emplace(tensor, Place{&file, &bytes}).second)
      fail(fmt::format("{} is in two files, {} is the second", shortened(tensor), name));
  }
}

void LlamaFolder::open_files() {
  const std::string index = in_folder(path_, index_name);
  if (is_there(in_folder(path_, whole_name))) return open_file(whole_name);
  if (!is_there(index)) fail(fmt::format("it has neither {} nor {}", whole_name, index_name));
  const std::map<std::string, std::string> file_of = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : file_of) names.insert(file);
  for (const std::string& name : names) refuse_link(name);
  for (const std::string& name : names) open_file(name);
  check_index(file_of);
}

void LlamaFolder::check_index(const std::map<std::string, std::string>& file_of) const {
  std::vector<std::string> elsewhere;
  for (const auto& [tensor, file] : file_of) {
    if (!files_.at(file).tensors.contains(tensor))
      elsewhere.push_back(fmt::format("{} in {}", shortened(tensor), file));
  }
  if (!elsewhere.empty())
    fail(fmt::format("{} names tensors that are not there: {}", index_name, fmt::join(elsewhere, ", ")));
}

void LlamaFolder::check_tensors() const {
  ShapesByName found, wanted;
  for (const auto& [name, place] : tensors_) {
    if (!is_left_out(name, config_.options)) found[name] = place.tensor->shape;
  }
  for (const auto& [name, stored] : stored_weights(config_.options, config_.fused)) wanted[stored.name] = stored.shape;
  if (const std::string fault = fault_of(found, wanted, config_name); !fault.empty()) fail(fault);
  std::vector<std::string> other;
  for (const auto& [name, shape] : wanted) {
    const DType dtype = tensors_.at(name).tensor->dtype;
    if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
      other.push_back(fmt::format("{} {}", name, name_of(dtype)));
  }
  if (!other.empty()) fail(fmt::format("tensors are no f32, f16 or bf16: {}", fmt::join(other, ", ")));
}

const TensorBytes& LlamaFolder::stored(const std::string& name) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) fail(fmt::format("it has no tensor {}", shortened(name)));
  return *found->second.tensor;
}

Llama LlamaFolder::load(DeviceRef device, std::optional<GgmlType> blocks) const {
  DeviceContext& where = device.context();
  const std::map<std::string, StoredWeight> weights = stored_weights(config_.options, config_.fused);
  Llama model(config_.options, [&](const std::string& name, const Shape& shape) {
    const StoredWeight& stored = weights.at(name);
    const auto& [file, tensor] = tensors_.at(stored.name);
    const size_t row = tensor->bytes.size() / static_cast<size_t>(tensor->shape[0]);
    const auto own =
        tensor->bytes.subspan(static_cast<size_t>(stored.first) * row, static_cast<size_t>(stored.rows) * row);
    if (blocks && is_matrix_of_layer(name, shape))
      return packed_weight(name, own, tensor->dtype, shape, *blocks, where);
    return Weight{tensor_of_file(file->file, own, tensor->dtype, shape, where), {}};
  });
  model.eval();
  return model;
}

}  // namespace heddle::nn
