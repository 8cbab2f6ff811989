#include "tools/plan_mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/blank_device.h"
#include "heddle/distributed/forecast/mesh_search.h"
#include "heddle/distributed/forecast/mesh_share.h"
#include "heddle/nn/summary.h"
#include "tools/output.h"
#include "tools/plan_cluster.h"
#include "tools/plan_model.h"
#include "tools/rehearsal.h"

namespace heddle::tools {
namespace {

using namespace distributed;

constexpr size_t shown_meshes = 20;
constexpr const char* default_link = "dgx-h100";
// Of ranks that are rehearsed: threads, and bytes of all their gradients, of which the host has copies.
constexpr int64_t most_rehearsed = 8;
constexpr double most_list_bytes = 2e9;

uint64_t whole(double bytes) { return static_cast<uint64_t>(std::llround(bytes)); }

ForecastOptions options_of(const PlanMeshOptions& o, const PlannedModel& model) {
  ForecastOptions f{.mesh = o.mesh,
                    .batch = o.batch != 0 ? o.batch : model.batch,
                    .microbatches = o.microbatches,
                    .sharding = parse_sharding(o.sharding),
                    .schedule = parse_schedule(o.schedule)};
  if (f.batch == 0) throw ValueError("[plan] --batch is missing: examples of a step, on all ranks together");
  if (f.microbatches == 0 && model.parts > 1) f.microbatches = model.parts;
  f.chunks = o.chunks != 0 ? o.chunks : f.schedule == PipelineSchedule::interleaved ? 2 : 1;
  f.overlap = !o.no_overlap;
  return f;
}

bool shares_batches_alone(const Mesh& mesh) {
  return std::none_of(mesh.axes().begin(), mesh.axes().end(),
                      [](const MeshAxis& axis) { return axis.name != "dp" && axis.size > 1; });
}

// Whether ranks are few, their lists small enough for this host, and the step one that training takes.
bool can_rehearse(const PlannedModel& model, const ForecastOptions& options, const Mesh& mesh) {
  const double lists = model.layers.gradient_bytes * static_cast<double>(parameters_of(model.layers)) * mesh.ranks();
  const bool trains = shares_batches_alone(mesh) || (model.in_parts && options.sharding == Sharding::none);
  return trains && mesh.ranks() <= most_rehearsed && lists <= most_list_bytes;
}

// What a rank was seen to hold, in the place of what formulas say.
MemoryForecast seen_memory(const RehearsedRank& rank, Sharding sharding, MemoryForecast m) {
  if (sharding != Sharding::zero3) m.parameters = rank.parameters;
  if (sharding == Sharding::none && m.gradients > 0) {
    m.optimizer *= rank.trained / m.gradients;
    m.gradients = rank.trained;
  }
  m.peak = rank.peak;
  m.activations = std::max(0.0, m.peak - m.parameters - m.gradients - m.optimizer);
  return m;
}

// Of more ranks than are rehearsed, which share whole batches alone: memory is that of two with as many examples each,
// less the states that others own.
void take_memory_of_two(const RehearsedRank& rank, const ForecastOptions& options, MeshForecast& made) {
  MemoryForecast& m = made.stages.front().memory;
  const MemoryForecast formula = m;
  m = seen_memory(rank, options.sharding, formula);
  m.optimizer = formula.optimizer;
  if (options.sharding != Sharding::none) m.peak -= m.optimizer * static_cast<double>(made.ranks - 1);
}

void take_memory_and_bytes(const std::vector<RehearsedRank>& ranks, Sharding sharding, MeshForecast& made) {
  for (RankForecast& stage : made.stages) {
    const auto rank =
        std::find_if(ranks.begin(), ranks.end(), [&](const RehearsedRank& each) { return each.stage == stage.stage; });
    stage.memory = seen_memory(*rank, sharding, stage.memory);
    stage.bytes_per_step = rank->bytes_per_step;
  }
}

void rehearse_stages(const PlannedModel& model, const PlanMeshOptions& o, const ForecastOptions& options,
                     MeshForecast& made) {
  if (model.step.empty()) return;
  const Mesh mesh = parse_mesh(made.mesh);
  RehearsalOptions r{.mesh = made.mesh,
                     .batch = options.batch,
                     .microbatches = made.microbatches,
                     .sharding = std::string(name_of(options.sharding)),
                     .pipeline = std::string(name_of(options.schedule)),
                     .chunks = options.chunks,
                     .sequence_parallel = model.layers.splits_rows_between};
  const auto seen = [&] {
    return rehearse(model.step, r, [&] {
      return o.device.empty() ? nn::blank_device() : blank_context(open_device(o.device, false));
    });
  };
  made.rehearsed = can_rehearse(model, options, mesh);
  if (made.rehearsed) return take_memory_and_bytes(seen(), options.sharding, made);
  if (!shares_batches_alone(mesh) || options.sharding == Sharding::zero3) return;
  r.mesh = "dp=2";
  r.batch = 2 * options.batch / made.ranks;
  r.sharding = "none";
  take_memory_of_two(seen().front(), options, made);
}

Json to_json(const MeshForecast& made, const RankForecast& rank, const Cluster& cluster) {
  const MemoryForecast& m = rank.memory;
  Json json{{"mesh", made.mesh}, {"stage", rank.stage}, {"ranks", rank.ranks}};
  json["memory_bytes"] = {{"parameters", whole(m.parameters)},
                          {"gradients", whole(m.gradients)},
                          {"optimizer", whole(m.optimizer)},
                          {"activations", whole(m.activations)},
                          {"peak", whole(m.peak)}};
  json.update({{"bytes_per_step", whole(rank.bytes_per_step)},
               {"step_seconds", made.step_seconds},
               {"bubble", rank.bubble},
               {"communication_hidden", rank.communication_hidden},
               {"mfu", made.mfu}});
  json.update({{"microbatches", made.microbatches},
               {"microbatch", made.microbatch},
               {"live", rank.live},
               {"fits", m.peak <= cluster.machine.memory},
               {"rehearsed", made.rehearsed},
               {"link", cluster.name}});
  return json;
}

const RankForecast& fullest(const MeshForecast& made) {
  return *std::max_element(made.stages.begin(), made.stages.end(),
                           [](const RankForecast& a, const RankForecast& b) { return a.memory.peak < b.memory.peak; });
}

std::string megabytes(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.2f} MB", bytes * 1e-6) : fmt::format("{:.2f} GB", bytes * 1e-9);
}

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

void show(const PlannedModel& model, const Cluster& cluster, const MeshForecast& made) {
  std::string text = fmt::format("{} over {} of {}: {} rank{}, {} microbatch{} of {}\n", model.layers.name, made.mesh,
                                 cluster.name, made.ranks, made.ranks == 1 ? "" : "s", made.microbatches,
                                 made.microbatches == 1 ? "" : "es", made.microbatch);
  text += fmt::format("step {}, bubble {:.1f} %, {:.1f} % of the peak of {} (MFU)\n", seconds_text(made.step_seconds),
                      100 * made.bubble, 100 * made.mfu, name_of(model.layers.dtype));
  text +=
      fmt::format("  {:<6}{:>7}{:>13}{:>13}{:>13}{:>13}{:>13}{:>13}{:>6}{:>9}{:>9}\n", "stage", "ranks", "parameters",
                  "gradients", "optimizer", "activations", "peak", "sent/step", "live", "bubble", "hidden");
  for (const RankForecast& rank : made.stages) {
    const MemoryForecast& m = rank.memory;
    text += fmt::format("  {:<6}{:>7}{:>13}{:>13}{:>13}{:>13}{:>13}{:>13}{:>6}{:>7.1f} %{:>7.1f} %{}\n", rank.stage,
                        rank.ranks, megabytes(m.parameters), megabytes(m.gradients), megabytes(m.optimizer),
                        megabytes(m.activations), megabytes(m.peak), megabytes(rank.bytes_per_step), rank.live,
                        100 * rank.bubble, 100 * rank.communication_hidden,
                        m.peak <= cluster.machine.memory ? "" : "  does not fit");
  }
  print_out(text);
}

void show(const PlannedModel& model, const Cluster& cluster, const std::vector<MeshForecast>& found) {
  std::string text = fmt::format("{} over {} ranks of {}: {} mesh{} fit, the fastest first\n", model.layers.name,
                                 found.front().ranks, cluster.name, found.size(), found.size() == 1 ? "" : "es");
  text += fmt::format("  {:<28}{:>12}{:>9}{:>8}{:>13}\n", "mesh", "step", "bubble", "MFU", "peak");
  for (size_t i = 0; i < std::min(found.size(), shown_meshes); ++i) {
    const MeshForecast& made = found[i];
    text += fmt::format("  {:<28}{:>12}{:>7.1f} %{:>6.1f} %{:>13}\n", made.mesh, seconds_text(made.step_seconds),
                        100 * made.bubble, 100 * made.mfu, megabytes(made.peak()));
  }
  if (found.size() > shown_meshes) text += fmt::format("  and {} slower ones\n", found.size() - shown_meshes);
  print_out(text);
}

}  // namespace

void add_plan_mesh_options(CLI::App& command, PlanMeshOptions& o) {
  command.add_option("--mesh", o.mesh, "Ranks that share the step, e.g. dp=64,tp=8,pp=4: axes dp, tp, pp and cp");
  command.add_option("--search", o.search, "Compare all meshes of so many ranks");
  command.add_option("--link", o.link, "Machine and links: dgx-a100, dgx-h100 or a file (docs/distributed.md)");
  command.add_option("--batch", o.batch, "Examples of a step, on all ranks together");
  command.add_option("--microbatches", o.microbatches, "Parts of a rank's batch that follow each other");
  command.add_option("--sharding", o.sharding, "What ranks along dp and cp divide: none, zero1, zero2 or zero3")
      ->capture_default_str();
  command.add_option("--schedule", o.schedule, "Of the pipeline: gpipe, 1f1b, interleaved, zb1p or zb2p")
      ->capture_default_str();
  command.add_option("--chunks", o.chunks, "Of layers on each stage of an interleaved pipeline (2)");
  command.add_flag("--sequence-parallel", o.sequence_parallel,
                   "Ranks along tp share out the positions of what lies between layers in parts");
  command.add_flag("--no-overlap", o.no_overlap, "Gradients are sent behind the backward pass, not beside it");
}

// A transformer's configuration may say so by itself.
void share_positions_out(const PlanMeshOptions& o, PlannedModel& model) {
  if (!o.sequence_parallel) return;
  if (model.layers.heads == 0)
    throw ValueError(fmt::format("[plan] --sequence-parallel is of transformers; {} is none", model.layers.name));
  const std::vector<MeshAxis> axes = o.search != 0 ? std::vector<MeshAxis>() : parse_mesh(o.mesh).axes();
  const auto splits = [](const MeshAxis& axis) { return axis.name == "tp" && axis.size > 1; };
  if (o.search == 0 && std::none_of(axes.begin(), axes.end(), splits))
    throw ValueError(fmt::format("[plan] {}: --sequence-parallel: there are no ranks along tp", o.mesh));
  model.layers.splits_rows_between = true;
}

void check_plan_mesh(const CLI::App& command, const PlanMeshOptions& o) {
  if (!o.mesh.empty() && o.search != 0) throw ValueError("[plan] --mesh and --search exclude each other");
  for (const char* of_device : {"--measure", "--memory-budget"})
    if (o.asked() && command.count(of_device) > 0)
      throw ValueError(fmt::format("[plan] {} is of one device; it has no meaning for a mesh", of_device));
  for (const char* of_mesh : {"--link", "--batch", "--microbatches", "--sharding", "--schedule", "--chunks",
                              "--no-overlap", "--sequence-parallel"})
    if (!o.asked() && command.count(of_mesh) > 0)
      throw ValueError(fmt::format("[plan] {} needs --mesh or --search", of_mesh));
  for (const auto& [flag, value] : {std::pair{"--batch", o.batch},
                                    {"--microbatches", o.microbatches},
                                    {"--chunks", o.chunks},
                                    {"--search", o.search}})
    if (command.count(flag) > 0 && value < 1)
      throw ValueError(fmt::format("[plan] {} is {}; it must be at least 1", flag, value));
}

void plan_mesh(const std::string& name, const PlanMeshOptions& o) {
  const Cluster cluster = read_cluster(o.link.empty() ? default_link : o.link);
  PlannedModel model = read_planned_model(name);
  share_positions_out(o, model);
  const ForecastOptions options = options_of(o, model);
  if (o.search != 0) {
    const std::vector<MeshForecast> found = search_meshes(model.layers, cluster, options, o.search);
    if (!o.json) return show(model, cluster, found);
    for (const MeshForecast& made : found) print_json(to_json(made, fullest(made), cluster));
    return;
  }
  MeshForecast made = forecast(model.layers, cluster, options);
  rehearse_stages(model, o, options, made);
  if (!o.json) return show(model, cluster, made);
  for (const RankForecast& rank : made.stages) print_json(to_json(made, rank, cluster));
}

}  // namespace heddle::tools
