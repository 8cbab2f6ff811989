#include "tools/report_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/similar.h"
#include "heddle/core/base/text_stream.h"
#include "heddle/io/read_file.h"
#include "heddle/train/toml.h"

namespace heddle::tools {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr size_t most_points = 4000, most_samples = 24;

[[noreturn]] void unknown_run(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  const fs::path parent = folder.parent_path().empty() ? fs::path(".") : folder.parent_path();
  for (const std::string& name : names_in(parent.string(), code)) {
    if (fs::exists(parent / name / "metrics.jsonl", code)) names.push_back(name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string all = known.empty() ? "" : fmt::format("; runs beside it: {}", fmt::join(known, ", "));
  throw ValueError(fmt::format("[report] {}: no such folder{}", folder.string(),
                               did_you_mean(folder.filename().string(), known, all)));
}

double number_or(const Json& event, const std::string& key, double otherwise) {
  const auto found = event.find(key);
  return found != event.end() && found->is_number() ? found->get<double>() : otherwise;
}

// The events, without those that the run took back.
std::vector<Json> read_events(const fs::path& folder, bool& unfinished) {
  const std::string path = (folder / "metrics.jsonl").string(), text = read_text_file(path, "report");
  std::vector<Json> events;
  TextInput lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    Json event = try_parse_json(line).value_or(nullptr);
    unfinished = lines.eof() && !event.is_object();
    if (unfinished) break;
    if (!event.is_object() || !event.contains("event") || !event["event"].is_string())
      throw ValueError(fmt::format("[report] {}:{}: is not an event, a JSON object with \"event\"", path, number));
    if (event["event"] == "resume" ||
        (event["event"] == "start" && !events.empty())) {  // a process that goes on from a step
      const double step = number_or(event, "step", 0);
      std::erase_if(events, [&](const Json& e) {
        return e.contains("step") && e["step"].is_number() && e["step"].get<double>() > step;
      });
    }
    events.push_back(std::move(event));
  }
  return events;
}

// "seconds" begin at 0 in each process: the time of a resumed run goes on where the last event that counts left it.
void join_times(std::vector<Json>& events) {
  double offset = 0, last = 0;
  for (Json& event : events) {
    if (event["event"] == "start" || event["event"] == "resume") offset = last;
    if (event["event"] == "loader" || !event.contains("seconds") || !event["seconds"].is_number()) continue;
    last = offset + event["seconds"].get<double>();
    event["seconds"] = last;
  }
}

// Columns of the numbers of step events; groups of `every` as the mean of what is there, places (step, epoch, seconds)
// as the last, and of what scatters the extremes besides ("loss_low", "loss_high").
Json columns_of(const std::vector<const Json*>& steps, size_t every) {
  Json columns = {{"step", Json::array()}, {"epoch", Json::array()}, {"seconds", Json::array()}};
  for (const Json* step : steps) {
    for (const auto& [key, value] : step->items()) {
      if (value.is_number() && !columns.contains(key)) columns[key] = Json::array();
    }
  }
  Json extremes = Json::object();
  for (auto& [key, column] : columns.items()) {
    const bool place = key == "step" || key == "epoch" || key == "seconds",
               scatters = every > 1 && (key == "loss" || key == "grad_norm");
    for (size_t i = 0; i < steps.size(); i += every) {
      double sum = 0, last = 0, low = infinite, high = -infinite;
      int count = 0;
      for (size_t j = i; j < std::min(i + every, steps.size()); ++j) {
        const double value = number_or(*steps[j], key, std::numeric_limits<double>::quiet_NaN());
        if (!std::isfinite(value)) continue;
        last = value;
        low = std::min(low, value);
        high = std::max(high, value);
        sum += value;
        ++count;
      }
      column.push_back(count == 0 ? Json() : Json(place || every == 1 ? last : sum / count));
      if (!scatters) continue;
      extremes[key + "_low"].push_back(count == 0 ? Json() : Json(low));
      extremes[key + "_high"].push_back(count == 0 ? Json() : Json(high));
    }
  }
  columns.update(extremes);
  return columns;
}

// What a process measured from its start to the end of each epoch, as each epoch's own share.
void split_by_epoch(std::vector<Json>& events) {
  Json before = Json::object();
  for (Json& event : events) {
    if (event["event"] == "start") before = Json::object();
    if (event["event"] != "loader") continue;
    const Json total = event;
    for (const char* part : {"fetch", "preprocess", "copy", "compute", "idle", "starved"}) {
      if (event.contains(part) && event[part].is_number())
        event[part] = std::max(0.0, event[part].get<double>() - number_or(before, part, 0));
    }
    before = total;
  }
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const auto byte = [&](size_t k) {
      return i + k < bytes.size() ? static_cast<uint32_t>(static_cast<uint8_t>(bytes[i + k])) : 0u;
    };
    const uint32_t group = byte(0) << 16 | byte(1) << 8 | byte(2);
    for (size_t k = 0; k < 4; ++k) out += i + k > bytes.size() ? '=' : digits[group >> (18 - 6 * k) & 63];
  }
  return out;
}

// A PNG inside the run's folder, as a data URI; nothing for another file, or none.
Json image_data(const fs::path& folder, const fs::path& name) {
  const fs::path inside = name.lexically_normal();
  std::error_code code;
  if (inside.is_absolute() || inside.string().starts_with("..") || !fs::is_regular_file(folder / inside, code))
    return {};
  const std::string bytes = read_text_file((folder / inside).string(), "report");
  return bytes.starts_with("\x89PNG") ? Json("data:image/png;base64," + base64(bytes)) : Json();
}

Json samples_of(const fs::path& folder, const std::vector<const Json*>& events) {
  Json samples = Json::array();
  const size_t count = std::min(events.size(), most_samples);
  for (size_t i = 0; i < count; ++i) {  // of many, some at equal distances, the first and the last among them
    Json sample = *events[count < 2 ? 0 : i * (events.size() - 1) / (count - 1)];
    if (sample.contains("image"))
      sample["image"] = image_data(folder, sample["image"].is_string() ? sample["image"].get<std::string>() : "");
    samples.push_back(std::move(sample));
  }
  return samples;
}

Json config_of(const fs::path& folder) {
  Json config = Json::array();
  std::error_code code;
  const std::string path = (folder / "config.toml").string();
  if (!fs::exists(path, code)) return config;
  const auto rows = train::config_rows();
  for (const train::TomlEntry& entry : train::read_toml(read_text_file(path, "report"), path)) {
    const auto row =
        std::find_if(rows.begin(), rows.end(), [&](const train::ConfigRow& r) { return r.key == entry.key; });
    config.push_back({{"key", entry.key},
                      {"value", train::toml_text(entry.value)},
                      {"initial", row == rows.end() ? Json() : Json(train::toml_text(row->initial))}});
  }
  return config;
}

Json environment_of(const fs::path& folder) {
  std::error_code code;
  const fs::path path = folder / "environment.json";
  if (!fs::exists(path, code)) return Json::object();
  Json environment = try_parse_json(read_text_file(path.string(), "report")).value_or(nullptr);
  if (!environment.is_object()) throw ValueError(fmt::format("[report] {}: is not a JSON object", path.string()));
  return environment;
}

// Samples and tokens a second, as the terminal says it at the end of a process: of all its updates. Of one that was
// killed, of the updates that it logged.
Json speed_of(const std::vector<Json>& events, const std::vector<const Json*>& steps) {
  Json speed = Json::object();
  for (const char* key : {"samples_per_second", "tokens_per_second"}) {
    double seconds = 0, updates = 0;  // in units of an update's examples
    for (const Json* step : steps) {
      const double rate = number_or(*step, key, 0);
      if (rate > 0) seconds += 1 / rate;
      updates += rate > 0 ? 1 : 0;
    }
    if (seconds > 0) speed[key] = updates / seconds;
    for (const Json& event : events) {
      if (event["event"] != "step" && event.contains(key) && event[key].is_number()) speed[key] = event[key];
    }
  }
  return speed;
}

// A line of text for what else happened.
std::string note_of(const Json& event) {
  const std::string kind = event["event"];
  std::string text = kind == "start" ? "resumed" : kind;
  if (event.contains("step")) text += fmt::format(" at update {}", event["step"].dump());
  if (event.contains("path") && event["path"].is_string()) text += ": " + event["path"].get<std::string>();
  return text;
}

}  // namespace

Json report_data(const std::string& folder) {
  const fs::path path = fs::path(folder).lexically_normal();
  std::error_code code;
  if (!fs::is_directory(path, code)) unknown_run(path);
  if (!fs::exists(path / "metrics.jsonl", code))
    throw ValueError(fmt::format("[report] {}: holds no metrics.jsonl; not the folder of a run", folder));
  bool unfinished = false;
  std::vector<Json> events = read_events(path, unfinished);
  if (events.empty())
    throw ValueError(fmt::format("[report] {}: its metrics.jsonl is empty; nothing was trained yet", folder));
  join_times(events);
  split_by_epoch(events);

  std::vector<const Json*> steps, samples;
  const fs::path name = path.has_filename() ? path.filename() : path.parent_path().filename();
  Json run = {{"name", name.string()}, {"path", folder},         {"start", Json::object()},  {"done", nullptr},
              {"interrupted", false},  {"evals", Json::array()}, {"loaders", Json::array()}, {"notes", Json::array()}};
  for (const Json& event : events) {
    const std::string kind = event["event"];
    if (kind == "step")
      steps.push_back(&event);
    else if (kind == "sample")
      samples.push_back(&event);
    else if (kind == "eval")
      run["evals"].push_back(event);
    else if (kind == "loader")
      run["loaders"].push_back(event);
    else if (kind == "start" && run["start"].empty())
      run["start"] = event;
    else if (kind == "done" || kind == "stopped")  // as it was called once, for a run that stopped early
      run["done"] = event;
    else
      run["notes"].push_back(note_of(event));
    run["interrupted"] =
        kind == "interrupted" || (run["interrupted"].get<bool>() && kind != "resume" && kind != "start");
  }
  if (unfinished) run["notes"].push_back("the last line is unfinished: the process was ended while it wrote it");
  run["speed"] = speed_of(events, steps);
  const size_t every = std::max<size_t>(1, (steps.size() + most_points - 1) / most_points);
  run["every"] = every;
  run["steps"] = columns_of(steps, every);
  run["samples"] = samples_of(path, samples);
  run["config"] = config_of(path);
  run["environment"] = environment_of(path);
  return run;
}

}  // namespace heddle::tools
