#include "tests/fuzz/seed_files.h"

#include <fstream>

#include "tests/fuzz/target.h"

namespace heddle::fuzz {

std::string scratch(const char* name) { return scratch_folder() + "/" + name; }

void write_scratch(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

}  // namespace heddle::fuzz
