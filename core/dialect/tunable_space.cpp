#include "heddle/core/dialect/tunable_space.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/base/error.h"

namespace heddle {
namespace {

// A kind of generated kernel: name of the body in TuningKey, its tunables, and a rule over them (an expression as in
// `require`, empty: none). core/tiles/generated_tiles.h says what the values mean.
struct GeneratedSpace {
  std::string_view body;
  std::vector<KernelTunable> tunables;
  std::string_view rule;
};
const std::vector<GeneratedSpace>& generated_spaces() {
  static const std::vector<GeneratedSpace> rows = {
      {"conv_parts",
       {{"PARTS", 1, {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}, "partial sums along channels or pixels"}},
       ""},
      {"elementwise",
       {{"CHUNK", 4096, {1024, 2048, 4096, 8192, 16384, 32768, 65536, 262144}, "elements of a unit of work"},
        {"STREAM", 0, {0, 1}, "results go past the caches"},
        {"PAIRS", 0, {0, 1}, "two neighbours of a short row are taken apart in registers"},
        {"TILE", 0, {0, 1}, "loads along another dimension are turned tile by tile"},
        {"TILE_I", 32, {16, 32, 64}, "elements of a tile along the results"},
        {"TILE_S", 256, {64, 128, 256, 512, 1024}, "elements of a unit along the results"},
        {"TILE_Q", 256, {64, 128, 256, 512, 1024, 2048, 4096}, "elements of a unit along the loads"},
        {"LANES", 64, {32, 64, 128, 256}, "lanes of a group"},
        {"PER_LANE", 1, {1, 2, 4, 8, 16}, "elements of a lane"},
        {"AHEAD", 0, {0, 1}, "a lane reads all its elements before it computes the first"}},
       ""},
      {"matmul_parts", {{"PARTS", 1, {1, 2, 3, 4, 8, 16, 32, 64, 128, 256}, "partial products along k"}}, ""},
      {"rows",
       {{"WIDTH", 64, {1, 16, 32, 64}, "accumulators of a reduction"},
        {"BLOCK", 4, {1, 2, 4, 8, 16, 32, 64}, "rows of a unit of work"},
        {"PREFETCH", 1, {0, 1}, "the next row is fetched while this one is computed"},
        {"STREAM", 0, {0, 1}, "results go past the caches"},
        {"LANES", 32, {8, 16, 32, 64, 128, 256, 512, 1024}, "lanes of a group"},
        {"PER_LANE", 1, {1, 2, 4, 8, 16, 32}, "elements of a row that a lane reads at once"},
        {"SUBGROUPS", 1, {0, 1}, "lanes exchange values where they can"}},
       "WIDTH == 1 || WIDTH == 16 || WIDTH == 32 || WIDTH == 64"}};
  return rows;
}

const GeneratedSpace* find_generated(std::string_view body) {
  for (const GeneratedSpace& row : generated_spaces()) {
    if (row.body == body) return &row;
  }
  return nullptr;
}

std::string generated_refusal(std::string_view body, const Bindings& values) {
  const GeneratedSpace& row = *find_generated(body);
  Bindings all;
  for (const KernelTunable& t : row.tunables) all[t.name] = t.value;
  for (const auto& [key, value] : values) {
    const std::string& name = key;  // Clang 14 captures no structured binding
    const auto t =
        std::find_if(row.tunables.begin(), row.tunables.end(), [&](const KernelTunable& x) { return x.name == name; });
    if (t == row.tunables.end()) return fmt::format("no tunable '{}'", name);
    const auto [least, most] = std::minmax_element(t->choices.begin(), t->choices.end());
    if (value < *least || value > *most)
      return fmt::format("{} = {} is not within {} and {}", name, value, *least, *most);
    all[name] = value;
  }
  return row.rule.empty() || evaluate_expression(row.rule, all, body) != 0
             ? ""
             : fmt::format("the rule {} refuses them", row.rule);
}

bool is_builtin(std::string_view body) {
  const std::vector<std::string> names = KernelFile::builtin_names();
  return std::find(names.begin(), names.end(), body) != names.end();
}

std::string file_refusal(std::string_view body, const Bindings& values) {
  return KernelFile::builtin(body).refusal(values);
}

bool file_matters(std::string_view body, std::string_view tunable, const Bindings& values) {
  return KernelFile::builtin(body).matters(tunable, values);
}

bool always_matters(std::string_view, std::string_view, const Bindings&) { return true; }

}  // namespace

bool has_tunable_space(std::string_view body) {
  return find_generated(body) != nullptr || (is_builtin(body) && !KernelFile::builtin(body).tunables.empty());
}

TunableSpace tunable_space(std::string_view body) {
  if (const GeneratedSpace* row = find_generated(body)) return {true, row->tunables, generated_refusal, always_matters};
  if (!has_tunable_space(body))
    throw ValueError(fmt::format("[tuning] no tunables in '{}'; known: {}", body, fmt::join(tunable_bodies(), ", ")));
  TunableSpace space{false, {}, file_refusal, file_matters};
  for (const KernelTunable& t : KernelFile::builtin(body).tunables) {
    if (!t.fact) space.tunables.push_back(t);
  }
  return space;
}

std::vector<std::string> tunable_bodies() {
  std::vector<std::string> names;
  for (const std::string& name : KernelFile::builtin_names()) {
    if (has_tunable_space(name)) names.push_back(name);
  }
  for (const GeneratedSpace& row : generated_spaces()) names.emplace_back(row.body);
  return names;
}

}  // namespace heddle
