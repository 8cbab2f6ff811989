#include "tools/predictions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/data/csv.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

constexpr size_t buffer = 64 << 10;

size_t shown(const train::Prediction& p, int64_t top) {
  return std::min(p.top.size(), static_cast<size_t>(std::max<int64_t>(1, top)));
}

// The shortest digits that read back as the same number.
std::string digits(double value) { return fmt::format("{}", value); }
// Of a probability, which is an f32.
std::string share(double value) { return fmt::format("{}", static_cast<float>(value)); }

}  // namespace

std::string prediction_text(const train::Prediction& p, int64_t top) {
  std::string text = p.row > 0 ? fmt::format("{}:{}  ", p.file, p.row) : p.file + "  ";
  if (p.top.empty()) return text + fmt::format("{:g}", p.value);
  std::vector<std::string> parts;
  for (size_t i = 0; i < shown(p, top); ++i) parts.push_back(fmt::format("{} {:.4f}", p.top[i].first, p.top[i].second));
  return text + fmt::format("{}", fmt::join(parts, ", "));
}

std::string prediction_json(const train::Prediction& p, int64_t top) {
  Json line = {{"file", p.file}};
  if (p.row > 0) line["row"] = p.row;
  if (p.top.empty()) {
    line["value"] = p.value;
  } else {
    line["class"] = p.top.front().first;
    line["probability"] = p.top.front().second;
    line["top"] = Json::array();
    for (size_t i = 0; i < shown(p, top); ++i) line["top"].push_back(Json::array({p.top[i].first, p.top[i].second}));
  }
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

PredictionFile::PredictionFile(const std::string& path) : file_(path) {}

void PredictionFile::add(const train::Prediction& p) {
  std::vector<std::string> names = {"file"}, fields = {p.file};
  const auto field = [&](const char* name, std::string value) {
    names.emplace_back(name);
    fields.push_back(std::move(value));
  };
  if (p.row > 0) field("row", std::to_string(p.row));
  if (!p.label.empty()) field("label", p.label);
  if (p.top.empty()) {
    field("value", digits(p.value));
  } else {
    field("class", p.top.front().first);
    field("probability", share(p.top.front().second));
  }
  if (size_++ == 0) pending_ += data::csv_row(names);
  pending_ += data::csv_row(fields);
  if (pending_.size() < buffer) return;
  file_.write({pending_.data(), pending_.size()});
  pending_.clear();
}

void PredictionFile::finish() {
  file_.write({pending_.data(), pending_.size()});
  pending_.clear();
  file_.publish();
}

}  // namespace heddle::tools
