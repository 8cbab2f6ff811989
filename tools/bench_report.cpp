#ifdef HEDDLE_HAS_BENCH
#include "tools/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>

#include "bench/suites.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/text_stream.h"
#include "heddle/io/read_file.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

Json json_of(const bench::Spread& s) { return {{"median", s.median}, {"low", s.low}, {"high", s.high}}; }

Json json_of(const bench::Row& row) {
  Json peers = Json::array();
  for (const bench::PeerFigure& p : row.peers) {
    peers.push_back({{"peer", p.peer},
                     {"seconds", p.seconds.median},
                     {"ratio", p.ratio.median},
                     {"ratio_low", p.ratio.low},
                     {"ratio_high", p.ratio.high}});
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

std::string time_text(double seconds) {
  return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6) : fmt::format("{:.2f} ms", seconds * 1e3);
}

std::string text_of(const bench::Row& row) {
  if (row.host) {
    return fmt::format("{:<11} {:<20} {:<4} {:<8} {:>10.3f} us of host time [{:.3f} {:.3f}]", row.family, row.name,
                       name_of(row.dtype), row.device, row.seconds.median * 1e6, row.seconds.low * 1e6,
                       row.seconds.high * 1e6);
  }
  const double half = row.seconds.median > 0 ? (row.seconds.high - row.seconds.low) / row.seconds.median * 50 : 0;
  std::string text =
      fmt::format("{:<11} {:<20} {:<4} {:<8} {:>10} +-{:<2.0f}% {:>7.1f} GFLOP/s {:>6.1f} GB/s", row.family, row.name,
                  name_of(row.dtype), row.device, time_text(row.seconds.median), half, row.gflops(), row.gbytes());
  if (row.bound != bench::Bound::none)
    text += fmt::format("  {:.2f} of {}", row.fraction.median, bench::name_of(row.bound));
  for (const bench::PeerFigure& p : row.peers) {
    text += fmt::format("  {} {} ratio {:.2f} [{:.2f} {:.2f}]", p.peer, time_text(p.seconds.median), p.ratio.median,
                        p.ratio.low, p.ratio.high);
  }
  if (row.tuned_over_default) {
    text += row.tuned_same ? "  tuned: the default"
                           : fmt::format("  tuned/default {:.2f} [{:.2f} {:.2f}]", row.tuned_over_default->median,
                                         row.tuned_over_default->low, row.tuned_over_default->high);
  }
  return text;
}

}  // namespace

void report_row(const bench::Row& row, bool json) {
  if (json) return print_json(json_of(row));
  fmt::print("{}\n", text_of(row));
  std::fflush(stdout);
}

void report_missing_row(const bench::Case& c, std::string_view device, std::string_view why, bool json) {
  if (json)
    print_json({{"bench", c.family},
                {"case", c.name},
                {"dtype", std::string(name_of(c.dtype))},
                {"device", device},
                {"error", why}});
}

namespace {

std::string key_of(std::string_view family, std::string_view name, std::string_view dtype, std::string_view device) {
  return fmt::format("{} {} {} {}", family, name, dtype, device);
}

}  // namespace

BaseRows read_base(const std::string& path) {
  BaseRows rows;
  TextInput in(read_text_file(path, "bench"));
  size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (line.empty()) continue;
    const Json row = Json::parse(line, nullptr, false);
    if (!row.is_object()) throw IoError(fmt::format("[bench] {}:{}: no line of heddle bench --json", path, number));
    const auto text = [&](const char* key) {
      return row.contains(key) && row[key].is_string() ? row[key].get<std::string>() : std::string();
    };
    if (!row.contains("seconds") || !row["seconds"].is_number()) continue;
    rows[key_of(text("bench"), text("case"), text("dtype"), text("device"))] = row["seconds"].get<double>();
  }
  return rows;
}

void report_comparison(const BaseRows& base, const std::vector<bench::Row>& rows, bool json) {
  std::vector<double> ratios;
  std::string worst;
  double least = 0;
  if (!json)
    fmt::print("\n{:<11} {:<28} {:<4} {:<10} {:>11} {:>11} {:>7}\n", "family", "case", "", "device", "base", "now",
               "ratio");
  for (const bench::Row& row : rows) {
    const std::string key = key_of(row.family, row.name, name_of(row.dtype), row.device);
    const auto found = base.find(key);
    if (found == base.end() || found->second <= 0 || row.seconds.median <= 0) continue;
    const double ratio = found->second / row.seconds.median;
    if (ratios.empty() || ratio < least) {
      least = ratio;
      worst = key;
    }
    ratios.push_back(ratio);
    if (json) {
      print_json({{"compare", row.family},
                  {"case", row.name},
                  {"dtype", std::string(name_of(row.dtype))},
                  {"device", row.device},
                  {"base_seconds", found->second},
                  {"seconds", row.seconds.median},
                  {"ratio", ratio}});
    } else {
      fmt::print("{:<11} {:<28} {:<4} {:<10} {:>11} {:>11} {:>7.3f}\n", row.family, row.name, name_of(row.dtype),
                 row.device, time_text(found->second), time_text(row.seconds.median), ratio);
    }
  }
  const size_t only_base = base.size() - ratios.size(), only_now = rows.size() - ratios.size();
  const double mean = bench::geometric_mean(ratios);
  if (json) {
    print_json({{"compare", "all"},
                {"rows", ratios.size()},
                {"worst", least},
                {"worst_case", worst},
                {"geometric_mean", mean},
                {"only_base", only_base},
                {"only_now", only_now}});
  } else if (ratios.empty()) {
    fmt::print("no row of this run is in the base\n");
  } else {
    fmt::print(
        "seconds of the base / seconds now, {} rows: worst {:.3f} ({}), geometric mean {:.3f}; {} rows only in the "
        "base, {} only now\n",
        ratios.size(), least, worst, mean, only_base, only_now);
  }
  std::fflush(stdout);
}

void report_verdicts(std::string_view suite, const std::vector<bench::Row>& rows, bool json) {
  const std::vector<bench::Verdict> verdicts = bench::judge(suite, rows);
  if (!json && !verdicts.empty()) fmt::print("\n{:<66} {:>8} {:>8}\n", "goal", "value", "limit");
  for (const bench::Verdict& v : verdicts) {
    if (json) {
      print_json({{"goal", v.goal->what},
                  {"device", v.goal->device},
                  {"value", v.value},
                  {"limit", v.goal->limit},
                  {"met", v.met},
                  {"rows", v.rows},
                  {"cases", v.goal->cases.size()}});
      continue;
    }
    fmt::print("{:<66} {:>8.2f} {:>2}{:>6.2f} {}{}\n", v.goal->what, v.value,
               v.goal->at_most() ? "<=" : ">=", v.goal->limit, v.met ? "PASS" : "below",
               static_cast<size_t>(v.rows) < v.goal->cases.size()
                   ? fmt::format(" ({} of {} cases)", v.rows, v.goal->cases.size())
                   : "");
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
    if (json)
      print_json({{"goal", "tuned over default"},
                  {"device", device},
                  {"worst", worst},
                  {"geometric_mean", mean},
                  {"met", met},
                  {"rows", values.size()}});
    else
      fmt::print("\ntuned over default on {}, {} cases: worst {:.3f} (>= 0.97), geometric mean {:.3f} (> 1.0) {}\n",
                 device, values.size(), worst, mean, met ? "PASS" : "below");
  }
  std::fflush(stdout);
}

}  // namespace heddle::tools
#endif
