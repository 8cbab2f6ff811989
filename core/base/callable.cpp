#include "heddle/core/base/callable.h"

#include <functional>

namespace heddle {

void fail_empty_call() { throw std::bad_function_call(); }

}  // namespace heddle
