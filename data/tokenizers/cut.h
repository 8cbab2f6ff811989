// Cutting a text into pieces by the stages of a pipeline.
//
// Invariants: time grows with the text's length times the number of stages; views that are given to the callback live
// until it returns. Errors: ValueError of data/unicode.h. Thread safety: pure functions.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/data/tokenizers/pipeline.h"

namespace heddle::data::detail {

// The text after all normalisers. ValueError where replacements make it more than 64 times as long.
std::string normalised(std::string_view text, const std::vector<Normaliser>& stages);

// Calls f(piece) for each piece that is not empty. starts: the text begins the whole text, with nothing in front of it.
void for_each_piece(std::string_view text, bool starts, const std::vector<Cut>& cuts,
                    const std::function<void(std::string_view)>& f);

// All places of `from` from the left, without overlaps.
void replace_all(std::string& text, std::string_view from, std::string_view to);

}  // namespace heddle::data::detail
