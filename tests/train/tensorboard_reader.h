// Event files as TensorBoard's own reader sees them (read_events.py), by HEDDLE_TEST_PYTHON, else python3.
#pragma once

#include <array>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

namespace heddle::test {

inline std::string python() {
  const char* named = std::getenv("HEDDLE_TEST_PYTHON");
  return named != nullptr ? named : "python3";
}

inline std::string output_of(const std::string& command) {
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string text;
  std::array<char, 4096> part{};
  for (size_t n = 0; (n = std::fread(part.data(), 1, part.size(), pipe)) > 0;) text.append(part.data(), n);
  ::pclose(pipe);
  return text;
}

inline bool has_tensorboard() {
  return output_of(python() + " -c 'import tensorboard; print(\"here\")' 2>/dev/null") == "here\n";
}

inline nlohmann::json read_events(const std::string& folder) {
  return nlohmann::json::parse(
      output_of(python() + " " HEDDLE_SOURCE_DIR "/tests/train/read_events.py '" + folder + "' 2>/dev/null"), nullptr,
      false);
}

}  // namespace heddle::test
