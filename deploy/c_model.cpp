#include "heddle/deploy/c_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/system/files.h"
#include "heddle/core/dialect/c_text.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/deploy/c_calls.h"
#include "heddle/deploy/c_main.h"
#include "heddle/io/atomic_file.h"

namespace heddle {
namespace {

bool has_transfers(const GraphImage& image) {
  return std::ranges::any_of(image.launches, [](const GraphImage::Launch& l) {
    return l.kind == GraphImage::Launch::Kind::to_host || l.kind == GraphImage::Launch::Kind::from_host;
  });
}

void refuse(const GraphImage& image, std::vector<std::string>& found) {
  if (has_transfers(image)) found.emplace_back("values move to the memory of a host, of which there is none");
  for (const GraphImage::Kernel& kernel : image.kernels) {
    const std::string why = kernel.source ? c_refusal(*kernel.source) : "it has no text";
    if (!why.empty()) found.push_back(fmt::format("{}: {}", kernel.signature().name, why));
  }
  for (const GraphImage& once : image.once) refuse(once, found);
}

CFile kernel_file(const std::string& model, const CKernel& kernel) {
  std::string text = fmt::format("/* Kernel {} of {}. Written by heddle compile. */\n", kernel.source->name, model);
  text += fmt::format("#define heddle_kernel {}\n", kernel.function);
  return {kernel.function + ".c", text + print(*kernel.source, Target::c)};
}

}  // namespace

std::string c_name(std::string_view name) {
  static constexpr std::array words = {"auto",    "break",  "case",     "char",   "const",    "continue", "default",
                                       "do",      "double", "else",     "enum",   "extern",   "float",    "for",
                                       "goto",    "if",     "inline",   "int",    "long",     "register", "restrict",
                                       "return",  "short",  "signed",   "sizeof", "static",   "struct",   "switch",
                                       "typedef", "union",  "unsigned", "void",   "volatile", "while",    "main"};
  std::string text;
  for (const char c : name) {
    const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    text += kept ? c : '_';
  }
  const bool free = !text.empty() && (text[0] < '0' || text[0] > '9') && text[0] != '_' &&
                    std::ranges::find(words, text) == words.end();
  if (!free) text.insert(0, 1, 'm');
  return text;
}

std::vector<std::string> c_refusals(const CModel& model) {
  std::vector<std::string> found;
  for (const CModel::Entry& entry : model.entries) refuse(entry.image.image, found);
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

void check_c(const CModel& model) {
  if (const std::vector<std::string> refused = c_refusals(model); !refused.empty())
    throw ValueError(fmt::format("[compile] target c: {} cannot be written as C:\n  {}",
                                 refused.size() == 1 ? "a kernel" : fmt::format("{} kernels", refused.size()),
                                 fmt::join(refused, "\n  ")));
}

std::vector<CFile> c_files(const CModel& model) {
  check_c(model);
  CCalls calls(model);
  std::vector<CFile> files;
  files.push_back({model.name + ".h", calls.header()});
  files.push_back({model.name + ".c", calls.source()});
  files.push_back({model.name + "_data.h", calls.declarations()});
  files.push_back({model.name + "_weights.c", calls.weights()});
  for (const CKernel& kernel : calls.kernels()) files.push_back(kernel_file(model.name, kernel));
  files.push_back({"main.c", c_main(model)});
  return files;
}

void write_c_files(const std::string& folder, const std::vector<CFile>& files) {
  std::error_code error;
  const fs::path target(folder), made(folder + ".partial");
  if (fs::exists(target, error) &&
      !(fs::is_directory(target, error) && fs::directory_iterator(target, error) == fs::directory_iterator()))
    throw IoError(fmt::format("[compile] {}: is there already and no empty folder", folder));
  fs::remove_all(made, error);
  fs::create_directories(made, error);
  if (error) throw IoError(fmt::format("[compile] {}: {}", folder, error.message()));
  try {
    for (const CFile& file : files) write_file_atomically((made / file.name).string(), file.text);
    fs::remove(target, error);
    if (!os::replace_file(made.string(), target.string()))
      throw IoError(fmt::format("[compile] {}: {}", folder, std::generic_category().message(errno)));
  } catch (...) {
    fs::remove_all(made, error);
    throw;
  }
}

}  // namespace heddle
