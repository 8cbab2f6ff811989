// Choices of a tunable as its kernel file declares them: a table of measured defaults asks for the one that fits a size
// and repeats no list.
//
// Errors: ValueError for a body without a file, or a tunable that the file does not declare. Thread safety: pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace heddle {

// Do so many multiply-adds, each weight of `weights` in some, take one thread of a CPU less time than its other threads
// would spare it? Waking them costs a launch 5 to 20 us; weights beyond a core's second cache come faster to several.
bool is_small_work(int64_t multiply_adds, int64_t weights, int64_t threads);

// Of shaders/<body>.hk and its parts, ascending.
const std::vector<int64_t>& choices_of(std::string_view body, std::string_view tunable);
// The smallest choice that is at least `value`, or the largest.
int64_t choice_at_least(std::string_view body, std::string_view tunable, int64_t value);
// The largest choice that is at most `value`, or the smallest.
int64_t choice_at_most(std::string_view body, std::string_view tunable, int64_t value);

}  // namespace heddle
