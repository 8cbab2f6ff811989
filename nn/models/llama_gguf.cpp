#include "heddle/nn/models/llama_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/blank_device.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/io/file_tensor.h"
#include "heddle/nn/models/blank_weight.h"
#include "heddle/nn/models/llama_gguf_options.h"
#include "heddle/nn/models/llama_weights.h"

namespace heddle::nn {
namespace {

[[noreturn]] void refuse(const std::string& path, std::string_view what) {
  throw IoError(fmt::format("[gguf] {}: {}", path, what));
}

void check_tensors(const Gguf& file, const std::string& path, const GgufLlama& llama) {
  ShapesByName found, wanted;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name != gguf_rope_factors) found[tensor.name] = tensor.shape;
  }
  for (const auto& [name, stored] : stored_weights(llama.options, llama.fused))
    wanted[gguf_name(stored.name, llama.options)] = stored.shape;
  if (const std::string fault = fault_of(found, wanted, "the metadata"); !fault.empty()) refuse(path, fault);
}

GgufLlama checked_llama(const Gguf& file, const std::string& path) {
  try {
    GgufLlama llama = gguf_llama(file, path);
    check_tensors(file, path, llama);
    return llama;
  } catch (const ValueError& error) {  // a value of another type, or options that do not fit
    refuse(path, error.what());
  }
}

// Rows of a head: row 2 i + s of the file is row s * size / 2 + i.
std::vector<uint8_t> in_halves(std::span<const uint8_t> rows, int64_t count, int64_t heads) {
  const size_t bytes = rows.size() / static_cast<size_t>(count);
  const int64_t size = count / heads;
  std::vector<uint8_t> turned(rows.size());
  for (int64_t to = 0; to < count; ++to) {
    const int64_t head = to / size, s = to % size / (size / 2), i = to % (size / 2);
    const auto from = static_cast<size_t>(head * size + 2 * i + s);
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(from * bytes), bytes,
                turned.begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(to) * bytes));
  }
  return turned;
}

DType dtype_of(GgmlType type) {
  if (type == GgmlType::f16) return DType::f16;
  return type == GgmlType::bf16 ? DType::bf16 : DType::f32;
}

// Of queries and keys whose rows are to be put into order: how many heads there are; of others 0.
int64_t paired_heads(const std::string& name, const GgufLlama& llama) {
  if (!llama.paired) return 0;
  if (name.find(".q_proj.") != std::string::npos) return llama.options.heads;
  return name.find(".k_proj.") != std::string::npos ? llama.options.key_heads : 0;
}

Weight weight_of(const Gguf& file, const GgufTensor& tensor, const StoredWeight& stored, int64_t heads,
                 DeviceContext& device, GgufWeights how) {
  const size_t row = tensor.bytes.size() / static_cast<size_t>(tensor.shape[0]);
  const Shape rows = tensor.shape.with(0, stored.rows);
  std::span<const uint8_t> bytes =
      tensor.bytes.subspan(static_cast<size_t>(stored.first) * row, static_cast<size_t>(stored.rows) * row);
  const bool blank = is_blank(device);
  std::vector<uint8_t> turned;
  if (heads > 0 && !blank) bytes = turned = in_halves(bytes, stored.rows, heads);
  const bool blocks = block_of(tensor.type).elements > 1;
  if (how == GgufWeights::unpacked || (blocks && rows.rank() == 1)) {
    if (blank) return {blank_weight(rows, DType::f32, device), {}};
    std::vector<float> values(static_cast<size_t>(rows.numel()));
    dequantise(tensor.type, bytes, values);
    return {Tensor::from_vector(values, rows, &device), {}};
  }
  const DType dtype = blocks ? DType::u8 : dtype_of(tensor.type);
  const Shape shape = blocks ? packed_shape(rows, tensor.type) : rows;
  const auto packed = blocks ? std::optional(tensor.type) : std::nullopt;
  const bool rounds = how == GgufWeights::rounded;
  if (heads == 0) return {tensor_of_file(file.file(), bytes, dtype, shape, device), packed, rounds};
  const auto count = static_cast<size_t>(shape.numel());
  return {Tensor::from_bytes(bytes.data(), count, dtype, shape, &device), packed, rounds};
}

}  // namespace

LlamaOptions llama_options(const Gguf& file, const std::string& path) { return checked_llama(file, path).options; }

Llama load_llama(const Gguf& file, const std::string& path, DeviceRef device, GgufWeights how) {
  const GgufLlama llama = checked_llama(file, path);
  const std::map<std::string, StoredWeight> weights = stored_weights(llama.options, llama.fused);
  DeviceContext& where = device.context();
  Llama model(llama.options, [&](const std::string& name, const Shape&) {
    const StoredWeight& stored = weights.at(name);
    const GgufTensor& tensor = *file.find_tensor(gguf_name(stored.name, llama.options));
    return weight_of(file, tensor, stored, paired_heads(name, llama), where, how);
  });
  model.eval();
  return model;
}

}  // namespace heddle::nn
