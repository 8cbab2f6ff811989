// Foreign text in a message. Thread safety: pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace heddle {

// At most `most` bytes of a text, cut between characters, as one line: "..." stands for the rest.
std::string shortened(std::string_view text, size_t most = 200);

}  // namespace heddle
