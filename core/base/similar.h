// Names that somebody may have meant. Thread safety: pure.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// The known names that are nearest to an unknown one (Levenshtein's distance, or one is part of the other), at most
// three, the nearest first; none when nothing is near.
std::vector<std::string_view> similar_names(std::string_view name, std::span<const std::string_view> known);

// "; did you mean a, b?" for messages, or `otherwise` when nothing is near.
std::string did_you_mean(std::string_view name, std::span<const std::string_view> known,
                         std::string_view otherwise = "");

}  // namespace heddle
