// Search over tunables: coordinate descent from a known-good start, then random points; bounded by a predicate.
//
// Invariants: every point that is evaluated satisfies the space's rules, differs from every earlier one in a tunable
// that matters, and differs from the start. The order depends on the seed only. Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "heddle/core/dialect/tunable_space.h"

namespace heddle::bench {

// One candidate's fate. `ratio` is seconds of the default / seconds of the candidate, measured together: above 1, the
// candidate is faster.
struct Trial {
  enum class Status : uint8_t { ok, wrong, compile, launch, hang, crash };
  Status status = Status::ok;
  double ratio = 0;
  double seconds = 0, default_seconds = 0;
  std::string what;  // the error's text
};
std::string_view name_of(Trial::Status status);

struct SearchCounts {
  int tried = 0, wrong = 0, failed = 0, hung = 0;
};

struct SearchResult {
  Bindings best;  // of what may be searched: all that make a difference, and all that the start named
  Trial trial;    // of best; ratio 1 when nothing beat the start
  SearchCounts counts;
};

struct SearchInput {
  std::string body;
  TunableSpace space;
  Bindings start;               // the default: every tunable that the body's pick_ function named
  std::vector<Bindings> seeds;  // promising points, e.g. winners of other shapes; refused ones are left out
  std::function<Trial(const Bindings&)> evaluate;
  std::function<bool()> stop;  // asked before each evaluation
  uint32_t seed = 1;
  int most = 400;  // evaluations
};

SearchResult search(const SearchInput& input);

}  // namespace heddle::bench
