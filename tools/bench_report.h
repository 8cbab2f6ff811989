// How `heddle bench` prints: rows, verdicts of a suite, the comparison of tuned values with defaults and with rows of
// another run; as text or as lines of JSON.
//
// Thread safety: none (standard output).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "bench/run.h"

namespace heddle::tools {

void report_row(const bench::Row& row, bool json);
// A case without a row, in lines of JSON; as text nothing (the reason goes to stderr).
void report_missing_row(const bench::Case& c, std::string_view device, std::string_view why, bool json);
// The goals of the suite that the rows answer, each with PASS or below.
void report_verdicts(std::string_view suite, const std::vector<bench::Row>& rows, bool json);
// Worst and geometric mean of tuned over default, for each device.
void report_tuning(const std::vector<bench::Row>& rows, bool json);

// Rows of an earlier `heddle bench --json`: seconds by benchmark, case, dtype and device.
using BaseRows = std::map<std::string, double>;
// IoError for a file that is missing or has a line that is no JSON object; lines that are no rows (goals, cases that
// failed) are passed over.
BaseRows read_base(const std::string& path);
// Seconds of the base / seconds now for each row that both have (above 1: faster now), worst and geometric mean; and
// how many rows only one of the two has.
void report_comparison(const BaseRows& base, const std::vector<bench::Row>& rows, bool json);

}  // namespace heddle::tools
