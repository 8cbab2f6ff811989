// Risk and coverage of a classifier that may pass a case on to a person.
//
// Purpose: cases whose confidence is at least a threshold are decided; coverage is their share, risk the share of wrong
// ones among them. El-Yaniv and Wiener 2010, "On the foundations of noise-free selective classification". Errors:
// ValueError for lists of different length, and for less than one or more than 2^20 points. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle::train {

struct RiskPoint {
  double threshold = 0, coverage = 0, risk = 0;  // risk 0 where nothing is decided
};

// At one threshold.
RiskPoint risk_at(const std::vector<double>& confidence, const std::vector<bool>& wrong, double threshold);
// At `points` coverages from 1 / points to 1, each with the threshold that gives at least that; equal confidences are
// decided together.
std::vector<RiskPoint> risk_coverage_curve(const std::vector<double>& confidence, const std::vector<bool>& wrong,
                                           int64_t points = 10);

}  // namespace heddle::train
