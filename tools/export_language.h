// heddle export of language models: a base and its adapter as one model. Thread safety: none.
#pragma once

#include <string>

namespace heddle::tools {

struct LanguageExport {
  std::string model, adapter, output, type, device;
  bool json = false;
};
// The model is one of train::is_base_model().
void export_language_model(const LanguageExport& options);

}  // namespace heddle::tools
