// What one run of a graph gives. Thread safety: plain value.
#pragma once

#include <vector>

#include "heddle/core/base/view.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"

namespace heddle {

struct GraphOutput {
  StoragePtr storage;
  View view;
};

struct GraphResult {
  std::vector<GraphOutput> outputs;  // per output of the capture
  std::vector<StoragePtr> own;       // what was made (or given) for this run; outputs share it
  Ticket last = Ticket::none;        // of the last segment; none: there was nothing to launch
};

}  // namespace heddle
