// Readers of models that others made: `.heddle`, GGUF.
#include <algorithm>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/io/gguf.h"
#include "heddle/io/model_parts.h"
#include "heddle/io/write_gguf.h"
#include "heddle/io/write_model_parts.h"
#include "tests/fuzz/seed_files.h"
#include "tests/fuzz/target.h"

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

}  // namespace

std::vector<Target> model_targets() {
  return {
      {"model_parts",
       model_parts,
       model_parts_seeds,
       {"\"name\":", "\"kind\":", "\"offset\":", "\"bytes\":", "\"sha256\":", "\"target\":", "\"weights\"", "\"image\"",
        "\"attributes\":{", "[[[[[[[[", "9223372036854775808", "1152921504606846976", "-1"}},
      {"gguf", gguf, gguf_seeds, {"GGUF", "general.alignment", "\x09\x08", "\xff\xff\xff\xff\xff\xff\xff\x0f"}},
  };
}

}  // namespace heddle::fuzz
