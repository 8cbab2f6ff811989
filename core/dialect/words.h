// Words of kernel files: trimming, cutting, names.
// Thread safety: pure functions; what they give points into what they were given.
#pragma once

#include <string_view>
#include <vector>

namespace heddle {

// Without blanks and line ends around it.
std::string_view trim(std::string_view s);
// The first word of `rest`, which loses it.
std::string_view take_word(std::string_view& rest);
// Letters, digits and single underscores, no digit first.
bool is_identifier(std::string_view s);
// Cuts at the commas that stand outside parentheses.
std::vector<std::string_view> split_list(std::string_view text);

}  // namespace heddle
