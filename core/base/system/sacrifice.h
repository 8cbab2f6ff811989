// A process that may be killed by what it opens, without a trace: no dump, no window, and an end in any case.
#pragma once

namespace heddle::os {

// Ends after that many seconds whatever it does.
void expect_to_die(unsigned seconds);

}  // namespace heddle::os
