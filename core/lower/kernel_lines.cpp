#include "heddle/core/lower/kernel_lines.h"

namespace heddle {

std::string KernelLines::find(const std::string& key) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->find(key); found != scope->end()) return found->second;
  }
  return {};
}

void KernelLines::clear() {
  text_.clear();
  scopes_.assign(1, {});
  next_ = 0;
}

}  // namespace heddle
