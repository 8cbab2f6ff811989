// Readers of models that others made: `.heddle` and its parts, GGUF, PyTorch.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/io/gguf.h"
#include "heddle/io/model_parts.h"
#include "heddle/io/torch_archive.h"
#include "heddle/io/write_gguf.h"
#include "heddle/io/write_model_parts.h"
#include "heddle/nn/lora_files.h"
#include "heddle/runtime/golden.h"
#include "heddle/runtime/model_image.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"
#include "tests/support/torch_file.h"

namespace heddle::fuzz {
namespace {

std::vector<uint8_t> with_checksum(Bytes input) {
  std::vector<uint8_t> file(input.begin(), input.end());
  if (file.size() < 64) return file;
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | file[16 + i];
  const Sha256Digest digest = sha256(std::span(file).subspan(64, std::min<uint64_t>(length, file.size() - 64)));
  std::copy(digest.begin(), digest.end(), file.begin() + 32);
  return file;
}

// What is read and written again is the same.
void model_parts(Bytes input) {
  const ModelParts file = ModelParts::of(FileBytes::of(with_checksum(input)), "input");
  std::vector<ModelPart> parts;
  for (const PartEntry& entry : file.entries())
    parts.push_back({entry.name, entry.kind, file.bytes(entry), entry.target, entry.bucket, entry.attributes});
  const ModelParts again = ModelParts::of(FileBytes::of(model_parts_bytes(parts, file.metadata())), "copy");
  require(again.metadata() == file.metadata() && again.entries().size() == parts.size(), "parts: the copy differs");
  for (size_t i = 0; i < parts.size(); ++i)
    require(again.entries()[i].sha256 == file.entries()[i].sha256, "parts: a part differs");
  const std::string& path = file_of(input);
  ModelParts::map(path).verify();
}

// What a part of kind image holds; what is written again is the same.
void model_image(Bytes input) {
  const ModelImage read = model_image_from_bytes(input);
  require(model_image_fault(read).empty(), "model_image: what was read has a fault");
  require(std::ranges::equal(model_image_bytes(read), input), "model_image: the copy differs");
  for (const ModelImage::Port& port : read.inputs) port.bytes();
}

// The values of a file agree with themselves.
void golden(Bytes input) {
  const Golden read = golden_from_bytes(input);
  require(std::ranges::equal(golden_bytes(read), input), "golden: the copy differs");
  for (const Golden::Value& value : read.outputs)
    require(golden_difference(read, value, value.bytes).empty(), "golden: a value differs from itself");
}

// All values are asked for; what is written again is the same.
void gguf(Bytes input) {
  const Gguf file = Gguf::map(file_of(input));
  GgufWriter out;
  for (const auto& [key, value] : file.metadata()) {
    try {
      value.type() == GgufType::array ? static_cast<void>(value.elements()) : static_cast<void>(value.as_number());
    } catch (const ValueError&) {
    }
    out.add(key, value);
  }
  for (const GgufTensor& tensor : file.tensors()) {
    tensor.dequantised();
    out.add_tensor(tensor.name, tensor.type, tensor.shape, tensor.bytes);
  }
  const Gguf again = Gguf::of(FileBytes::of(out.bytes()), "copy");
  require(again.tensors().size() == file.tensors().size(), "gguf: the copy differs");
  for (size_t i = 0; i < file.tensors().size(); ++i) {
    const GgufTensor &a = file.tensors()[i], &b = again.tensors()[i];
    require(a.name == b.name && a.shape == b.shape &&
                std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end()),
            "gguf: a tensor differs");
  }
}

void read_archive(const std::string& file) {
  const TorchArchive archive = read_torch(FileBytes::of({file.begin(), file.end()}), "input");
  for (const auto& [name, tensor] : archive.tensors)
    require(tensor.bytes.size() == static_cast<uint64_t>(tensor.shape.numel()) * size_of(tensor.dtype),
            "torch: a tensor has other bytes than its shape");
}

// The input as it is, and as the pickle of an archive whose checksums fit.
void torch(Bytes input) {
  const std::string file(text_of(input));
  try {
    read_archive(file);
  } catch (const IoError&) {
  }
  read_archive(test::torch_archive(file, std::string(64, '\1')));
}

// A folder of PEFT: its configuration up to a NUL, its tensors behind it. What is read and written again is the same.
void adapter(Bytes input) {
  static nn::Llama model = adapted_model();
  const std::string folder = scratch_folder() + "/adapter", copy = scratch_folder() + "/adapter-copy";
  std::filesystem::create_directories(folder);
  const std::string_view all = text_of(input);
  const size_t cut = std::min(all.find('\0'), all.size());
  write_scratch(folder + "/adapter_config.json", std::string(all.substr(0, cut)));
  write_scratch(folder + "/adapter_model.safetensors", std::string(all.substr(std::min(cut + 1, all.size()))));
  const nn::Lora read = nn::load_peft(folder, model);
  nn::save_peft(copy, read);
  const nn::Lora again = nn::load_peft(copy, model);
  require(again.paths() == read.paths() && again.scale() == read.scale(), "adapter: the copy differs");
}

}  // namespace

std::vector<Target> model_targets() {
  return {
      {"adapter",
       adapter,
       adapter_seeds,
       {"\"peft_type\":\"LORA\"", "\"r\":", "\"lora_alpha\":", "\"use_dora\":true", "\"use_rslora\":true", "null",
        "1e308", "2147483647", "lora_A.weight", "base_model.model.", "rank_pattern", std::string_view("\0", 1)}},
      {"model_parts",
       model_parts,
       model_parts_seeds,
       {"\"name\":", "\"kind\":", "\"offset\":", "\"bytes\":", "\"sha256\":", "\"target\":", "\"weights\"", "\"image\"",
        "\"attributes\":{", "[[[[[[[[", "9223372036854775808", "1152921504606846976", "-1"}},
      {"model_image", model_image, model_image_seeds, {"HEDMIMG1", "HEDLIMG4", "\xff\xff\xff\xff\xff\xff\xff\x0f"}},
      {"golden", golden, golden_seeds, {"HEDGOLD1", "\xff\xff\xff\xff\xff\xff\xff\x0f"}},
      {"gguf", gguf, gguf_seeds, {"GGUF", "general.alignment", "\x09\x08", "\xff\xff\xff\xff\xff\xff\xff\x0f"}},
      {"torch",
       torch,
       torch_seeds,
       {"ctorch._utils\n_rebuild_tensor_v2\n", "ctorch\nLongStorage\n", "ctorch\nBoolStorage\n",
        "ccollections\nOrderedDict\n", "ctorch\nSize\n", "]", "}", "(", "t", "u", "e", "R", "Q", "b", "q\1", "h\1",
        "\x94", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x0f"}},
  };
}

}  // namespace heddle::fuzz
