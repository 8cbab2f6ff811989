#include "heddle/core/lower/kernel_text.h"

namespace heddle {

std::string KernelText::find(const std::string& key) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->find(key); found != scope->end()) return found->second;
  }
  return {};
}

void KernelText::clear() {
  text_.clear();
  scopes_.assign(1, {});
  next_ = 0;
}

}  // namespace heddle
