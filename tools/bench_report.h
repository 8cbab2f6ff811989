// How `heddle bench` prints: rows, verdicts of a suite, and the comparison of tuned values with defaults; as text or as lines of JSON.
//
// Thread safety: none (standard output).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/run.h"

namespace heddle::tools {

void report_row(const bench::Row& row, bool json);
// The goals of the suite that the rows answer, each with PASS or below.
void report_verdicts(std::string_view suite, const std::vector<bench::Row>& rows, bool json);
// Worst and geometric mean of tuned over default, for each device.
void report_tuning(const std::vector<bench::Row>& rows, bool json);

}  // namespace heddle::tools
