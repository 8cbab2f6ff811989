#include "heddle/train/risk_coverage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "heddle/core/base/error.h"

namespace heddle::train {

RiskPoint risk_at(const std::vector<double>& confidence, const std::vector<bool>& wrong, double threshold) {
  if (confidence.size() != wrong.size())
    throw ValueError(fmt::format("[risk] {} confidences for {} cases", confidence.size(), wrong.size()));
  size_t decided = 0, mistakes = 0;
  for (size_t i = 0; i < confidence.size(); ++i) {
    if (!(confidence[i] >= threshold)) continue;
    ++decided;
    mistakes += wrong[i] ? 1 : 0;
  }
  const auto share = [](size_t part, size_t whole) {
    return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  return {threshold, share(decided, confidence.size()), share(mistakes, decided)};
}

std::vector<RiskPoint> risk_coverage_curve(const std::vector<double>& confidence, const std::vector<bool>& wrong,
                                           int64_t points) {
  if (points < 1 || points > 1 << 20)
    throw ValueError(fmt::format("[risk] a curve of {} points; expected 1 to 2^20", points));
  std::vector<double> sorted = confidence;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  std::vector<RiskPoint> curve;
  for (int64_t k = 1; k <= points && !sorted.empty(); ++k) {
    const double coverage = static_cast<double>(k) / static_cast<double>(points);
    const auto decided = static_cast<size_t>(std::ceil(coverage * static_cast<double>(sorted.size())));
    curve.push_back(risk_at(confidence, wrong, sorted[std::max<size_t>(decided, 1) - 1]));
  }
  return curve;
}

}  // namespace heddle::train
