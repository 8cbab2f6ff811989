#include "core/base/caller.h"

#include <string_view>

namespace heddle {
namespace {

thread_local Caller present;

}  // namespace

Caller current_caller() noexcept { return present; }

std::string place_of(const Caller& caller) {
  if (caller.line() == 0) return {};
  const std::string_view path = caller.file_name();
  const size_t slash = path.find_last_of('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1)) + ":" + std::to_string(caller.line());
}

CallerScope::CallerScope(const Caller& caller) noexcept : outermost_(present.line() == 0) {
  if (outermost_) present = caller;
}

CallerScope::~CallerScope() {
  if (outermost_) present = Caller();
}

}  // namespace heddle
