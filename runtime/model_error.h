// ModelError: a failure with the status that the C interface gives for it. Thread safety: plain value.
#pragma once

#include <string>

#include "heddle/core/base/error.h"
#include "heddle/runtime/heddle.h"

namespace heddle {

class ModelError : public Error {
 public:
  ModelError(heddle_status status, const std::string& message) : Error(message), status_(status) {}
  heddle_status status() const { return status_; }

 private:
  heddle_status status_;
};

}  // namespace heddle
