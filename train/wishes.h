// Wishes: what a rank asks of all after an update; what one asks all do. Thread safety: plain value.
#pragma once

namespace heddle::train {

struct Wishes {
  bool stop = false, interrupt = false;
  bool look = false;  // the window of updates shall be closed
};

}  // namespace heddle::train
