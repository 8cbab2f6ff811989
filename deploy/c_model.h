// A model as C99: what is written, as texts.
//
// Purpose: the images of a model, planned on c_device(), become a folder of C sources: a header, a file that calls
// kernels in order over static memory, one file a kernel, weights as constant arrays, and a main() that compares golden
// vectors. Invariants: the texts need the standard headers alone, take no memory from a heap and call no system; they
// compute what the images compute. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/golden.h"
#include "heddle/runtime/model_image.h"

namespace heddle {

struct CModel {
  // A bucket: a function NAME_run(), or NAME_run_N8() where it is called "N=8".
  struct Entry {
    std::string bucket;
    ModelImage image;
    std::optional<Golden> golden;
  };
  std::string name;
  std::vector<Entry> entries;
  std::span<const uint8_t> weights;  // that the images' weights lie in
};

struct CFile {
  std::string name, text;
};

// A name as an identifier of C: "net-2.onnx" becomes "net_2_onnx", "8x8" "m8x8".
std::string c_name(std::string_view name);

// What cannot be written, a line a kernel: "sort_blocks: its 64 lanes wait for each other"; empty: nothing.
std::vector<std::string> c_refusals(const CModel& model);
// ValueError with all of them.
void check_c(const CModel& model);
// ValueError as check_c().
std::vector<CFile> c_files(const CModel& model);
// Writes them into a folder that is not there yet or empty: all or none. IoError.
void write_c_files(const std::string& folder, const std::vector<CFile>& files);

}  // namespace heddle
