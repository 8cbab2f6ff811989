// A run's folder as the data of `heddle report`.
//
// {"name", "path", "start", "done", "interrupted", "every", "steps": {column: [..]}, "speed": {"samples_per_second",
// "tokens_per_second"}, "evals": [..], "samples": [..], "loaders": [..], "notes": [..], "config": [{"key", "value",
// "initial"}], "environment"}. Invariants: records that a run took back (it was resumed from before them) are left out;
// the line that a killed process left unfinished is passed over; more than 4,000 steps are thinned, `every` to one, by
// means. Errors: ValueError for a folder that holds no run and for a broken line, by number. Thread safety: pure.
#pragma once

#include <string>

#include "tools/cli.h"

namespace heddle::tools {

Json report_data(const std::string& folder);

}  // namespace heddle::tools
