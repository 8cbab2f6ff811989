// Fuzz targets: one for each reader of files and texts (docs/threats.md).
//
// A target takes any bytes. UserError is an answer, whose message must be one short line; anything else that is thrown,
// a crash, a sanitizer's report, more than a second or unbounded memory is a fault. Where a format has checksums the
// target makes them fit, or mutated bytes would never get past them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::fuzz {

using Bytes = std::span<const uint8_t>;

struct Target {
  std::string_view name;
  void (*run)(Bytes input);
  std::vector<std::string> (*seeds)();  // inputs that are read to their end
  std::vector<std::string_view> words;  // what mutations insert
};

const std::vector<Target>& targets();
// Null where there is none of that name.
const Target* find_target(std::string_view name);
// Runs a target on one input; what must not happen ends the process.
void run_target(const Target& target, Bytes input);

// ---- for the targets

inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
// A file in memory that holds these bytes until the next call on this thread; its path.
const std::string& file_of(Bytes bytes);
inline const std::string& file_of(std::string_view text) {
  return file_of(Bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size()));
}
// An empty folder for this process, removed at its end.
const std::string& scratch_folder();
// Ends the process with the text unless `held`.
void require(bool held, std::string_view what);
std::string read_back(const std::string& path);

std::vector<Target> array_targets();   // safetensors, npy, npz, idx, png, jpeg, csv, records
std::vector<Target> text_targets();    // tokenizers, configurations, transforms, JSON
std::vector<Target> kernel_targets();  // kernel files, expressions, user texts, einsum, tuning tables, caches
std::vector<Target> run_targets();     // checkpoints, run state, reports
std::vector<Target> model_targets();   // .heddle, GGUF, PyTorch, adapters
std::vector<Target> dlpack_targets();  // arrays of others
std::vector<Target> onnx_targets();    // ONNX; only where the library reads it

}  // namespace heddle::fuzz
