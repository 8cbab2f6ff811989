// Added to the mutated copy of the library: which mutant lives, which are reached, and the kernel files with the living
// mutant's text.
//   HEDDLE_MUTANT=n          mutant n lives (none without it)
//   HEDDLE_MUTANT_LOG=path   a line for each test: its name, its milliseconds, and the mutants that it reached
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "heddle/core/dialect/builtin_files.h"

namespace {

struct ShaderMutant {
  int number;
  const char* file;
  size_t begin, end;
  const char* text;
};
const ShaderMutant shader_mutants[] = {
#include "heddle/core/mutants.inc"
    {0, "", 0, 0, ""},
};

int living = -1;
const char* log_path = nullptr;
std::atomic<bool> reached[4096];

[[gnu::constructor(101)]] void read_environment() {
  if (const char* number = std::getenv("HEDDLE_MUTANT")) living = std::atoi(number);
  log_path = std::getenv("HEDDLE_MUTANT_LOG");
}

}  // namespace

bool hk_mutant(int number) noexcept {
  if (log_path != nullptr) reached[number].store(true, std::memory_order_relaxed);
  return number == living;
}

void hk_mutants_write(const char* test, long milliseconds, const char* outcome) {
  if (log_path == nullptr) return;
  std::string line = std::string(test) + " " + outcome + " " + std::to_string(milliseconds);
  for (int n = 0; n < 4096; ++n) {
    if (reached[n].exchange(false)) line += " " + std::to_string(n);
  }
  line += "\n";
  if (std::FILE* file = std::fopen(log_path, "a")) {
    std::fwrite(line.data(), 1, line.size(), file);
    std::fclose(file);
  }
}

// What a process reaches beside its tests: before the first, or as a program that a test runs.
[[gnu::destructor]] static void write_the_rest() {
  const char* test = std::getenv("HEDDLE_MUTANT_TEST");
  hk_mutants_write(test != nullptr ? test : "-", 0, "PROCESS");
}

namespace heddle {

const std::vector<BuiltinFile>& original_builtin_files();

const std::vector<BuiltinFile>& builtin_files() {
  static const std::vector<BuiltinFile> files = [] {
    std::vector<BuiltinFile> result = original_builtin_files();
    for (const ShaderMutant& mutant : shader_mutants) {
      for (BuiltinFile& file : result) {
        if (mutant.number != living || file.name != mutant.file) continue;
        static std::string text;
        text = std::string(file.text.substr(0, mutant.begin)) + mutant.text + std::string(file.text.substr(mutant.end));
        file.text = text;
      }
    }
    return result;
  }();
  return files;
}

}  // namespace heddle

// A kernel file is asked for: its mutants and those of the parts that it includes are reached.
void hk_mutants_of_file(const std::string& name) noexcept {
  if (log_path == nullptr) return;
  for (const heddle::BuiltinFile& file : heddle::original_builtin_files()) {
    if (file.name != name) continue;
    for (const ShaderMutant& mutant : shader_mutants) {
      if (*mutant.file == 0) continue;
      const bool part = file.text.find("\"" + std::string(mutant.file) + "\"") != std::string_view::npos;
      if (mutant.file == name || part) reached[mutant.number].store(true, std::memory_order_relaxed);
    }
  }
}
