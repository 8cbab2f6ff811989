// heddle export of language models: a base and its adapter as one model. Thread safety: none.
#pragma once

#include <string>

namespace heddle::tools {

struct LanguageExport {
  std::string model, adapter, output, type, device;
  bool json = false;
};
// A GGUF file, or a folder with config.json.
bool is_language_model(const std::string& path);
void export_language_model(const LanguageExport& options);

}  // namespace heddle::tools
