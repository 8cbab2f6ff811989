#ifdef HEDDLE_HAS_BENCH
#include "tools/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "bench/suites.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

Json json_of(const bench::Spread& s) { return {{"median", s.median}, {"low", s.low}, {"high", s.high}}; }

Json json_of(const bench::Row& row) {
  Json peers = Json::array();
  for (const bench::PeerFigure& p : row.peers) {
    peers.push_back({{"peer", p.peer}, {"seconds", p.seconds.median}, {"ratio", p.ratio.median}, {"ratio_low", p.ratio.low}, {"ratio_high", p.ratio.high}});
  }
  const bool bounded = row.bound != bench::Bound::none;
  Json json = {{"bench", row.family},
               {"case", row.name},
               {"dtype", std::string(name_of(row.dtype))},
               {"device", row.device},
               {"seconds", row.seconds.median},
               {"seconds_low", row.seconds.low},
               {"seconds_high", row.seconds.high},
               {"flops", row.flops},
               {"bytes", row.bytes},
               {"gflops", row.gflops()},
               {"gbytes", row.gbytes()},
               {"launches", row.launches},
               {"extra_bytes", row.extra_bytes},
               {"bound", std::string(bench::name_of(row.bound))},
               {"bound_rate", bounded ? Json(row.bound_rate) : Json(nullptr)},
               {"bound_how", row.bound_how},
               {"fraction", bounded ? json_of(row.fraction) : Json(nullptr)},
               {"peers", std::move(peers)},
               {"checked", row.checked}};
  if (row.tuned_over_default) json["tuned_over_default"] = json_of(*row.tuned_over_default);
  if (row.host) {
    json["value"] = row.seconds.median * 1e6;
    json["unit"] = "us";
  }
  return json;
}

std::string time_text(double seconds) { return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6) : fmt::format("{:.2f} ms", seconds * 1e3); }

std::string text_of(const bench::Row& row) {
  if (row.host) {
    return fmt::format("{:<11} {:<20} {:<4} {:<8} {:>10.3f} us of host time [{:.3f} {:.3f}]", row.family, row.name, name_of(row.dtype), row.device,
                       row.seconds.median * 1e6, row.seconds.low * 1e6, row.seconds.high * 1e6);
  }
  const double half = row.seconds.median > 0 ? (row.seconds.high - row.seconds.low) / row.seconds.median * 50 : 0;
  std::string text = fmt::format("{:<11} {:<20} {:<4} {:<8} {:>10} +-{:<2.0f}% {:>7.1f} GFLOP/s {:>6.1f} GB/s", row.family, row.name, name_of(row.dtype), row.device,
                                 time_text(row.seconds.median), half, row.gflops(), row.gbytes());
  if (row.bound != bench::Bound::none) text += fmt::format("  {:.2f} of {}", row.fraction.median, bench::name_of(row.bound));
  for (const bench::PeerFigure& p : row.peers) {
    text += fmt::format("  {} {} ratio {:.2f} [{:.2f} {:.2f}]", p.peer, time_text(p.seconds.median), p.ratio.median, p.ratio.low, p.ratio.high);
  }
  if (row.tuned_over_default) {
    text += row.tuned_same ? "  tuned: the default" : fmt::format("  tuned/default {:.2f} [{:.2f} {:.2f}]", row.tuned_over_default->median, row.tuned_over_default->low, row.tuned_over_default->high);
  }
  return text;
}

}  // namespace

void report_row(const bench::Row& row, bool json) {
  if (json) return print_json(json_of(row));
  fmt::print("{}\n", text_of(row));
  std::fflush(stdout);
}

void report_verdicts(std::string_view suite, const std::vector<bench::Row>& rows, bool json) {
  const std::vector<bench::Verdict> verdicts = bench::judge(suite, rows);
  if (!json && !verdicts.empty()) fmt::print("\n{:<66} {:>8} {:>8}\n", "goal", "value", "limit");
  for (const bench::Verdict& v : verdicts) {
    if (json) {
      print_json({{"goal", v.goal->what}, {"device", v.goal->device}, {"value", v.value}, {"limit", v.goal->limit}, {"met", v.met}, {"rows", v.rows}, {"cases", v.goal->cases.size()}});
      continue;
    }
    fmt::print("{:<66} {:>8.2f} {:>2}{:>6.2f} {}{}\n", v.goal->what, v.value, v.goal->at_most() ? "<=" : ">=", v.goal->limit, v.met ? "PASS" : "below",
               static_cast<size_t>(v.rows) < v.goal->cases.size() ? fmt::format(" ({} of {} cases)", v.rows, v.goal->cases.size()) : "");
  }
  std::fflush(stdout);
}

void report_tuning(const std::vector<bench::Row>& rows, bool json) {
  std::map<std::string, std::vector<double>> ratios;
  for (const bench::Row& row : rows) {
    if (row.tuned_over_default) ratios[row.device].push_back(row.tuned_over_default->median);
  }
  for (const auto& [device, values] : ratios) {
    const double worst = *std::min_element(values.begin(), values.end()), mean = bench::geometric_mean(values);
    const bool met = worst >= 0.97 && mean > 1.0;
    if (json) print_json({{"goal", "tuned over default"}, {"device", device}, {"worst", worst}, {"geometric_mean", mean}, {"met", met}, {"rows", values.size()}});
    else fmt::print("\ntuned over default on {}, {} cases: worst {:.3f} (>= 0.97), geometric mean {:.3f} (> 1.0) {}\n", device, values.size(), worst, mean, met ? "PASS" : "below");
  }
  std::fflush(stdout);
}

}  // namespace heddle::tools
#endif
