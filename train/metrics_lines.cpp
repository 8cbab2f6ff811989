#include "heddle/train/metrics_lines.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "heddle/core/device/context.h"
#include "heddle/train/replicas.h"
#include "heddle/train/trainer.h"

namespace heddle::train {
namespace {

using Json = nlohmann::ordered_json;

std::string line_of(const Json& event) { return event.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace

void MetricsLines::on_train_start(Trainer& t) {
  sink_(line_of({{"event", "start"},
                 {"recipe", t.config().run.recipe},
                 {"device", t.device().id()},
                 {"parameters", t.task().model().parameter_count()},
                 {"step", t.step()},
                 {"steps", t.last_step()}}));
}

void MetricsLines::on_steps(Trainer& t, std::span<const StepRecord> steps) {
  const int64_t tokens = t.task().training().tokens;
  for (const StepRecord& s : steps) {
    const bool said = s.step % t.config().log.every == 0 || s.step == t.last_step() || !std::isfinite(s.loss) ||
                      (s.grad_norm && !std::isfinite(*s.grad_norm));
    if (!said) continue;
    Json event = {{"event", "step"},
                  {"step", s.step},
                  {"epoch", s.epoch},
                  {"loss", s.loss},
                  {"lr", s.lr},
                  {"grad_norm", nullptr},
                  {"samples_per_second", s.samples_per_second}};
    if (s.grad_norm) event["grad_norm"] = *s.grad_norm;
    if (s.loss_scale) event["loss_scale"] = *s.loss_scale;
    if (s.skipped) event["skipped"] = *s.skipped;
    for (const auto& [name, value] : s.figures) event[name] = value;
    if (tokens > 0) {
      event["tokens"] = examples_per_update(t.config()) * tokens;
      event["tokens_per_second"] = s.samples_per_second * static_cast<double>(tokens);
    }
    event["seconds"] = s.seconds;
    sink_(line_of(event));
  }
}

void MetricsLines::evaluated(Trainer& t, const Evaluation& e) {
  Json metrics = Json::object();
  for (const auto& [name, value] : e.metrics) metrics[name] = value;
  Json event = {{"event", "eval"}, {"step", t.step()},       {"split", e.split},
                {"loss", e.loss},  {"examples", e.examples}, {"metrics", metrics}};
  if (!e.confusion.empty()) event["confusion"] = e.confusion;
  for (const RiskPoint& point : e.curve) event["curve"].push_back({point.threshold, point.coverage, point.risk});
  event["seconds"] = t.seconds();
  sink_(line_of(event));
}

void MetricsLines::on_sample(Trainer& t, const Generated& made) {
  Json event = {{"event", "sample"}, {"step", t.step()}};
  if (!made.text.empty()) event["text"] = made.text;
  if (!made.image_path.empty()) event["image"] = made.image_path;
  sink_(line_of(event));
}

void MetricsLines::on_checkpoint(Trainer& t, const std::string& path) {
  sink_(
      line_of({{"event", "checkpoint"}, {"step", t.step()}, {"path", path}, {"stall_ms", t.checkpoint_stall() * 1e3}}));
}

void MetricsLines::on_straggler(Trainer& t, const Straggler& straggler) {
  sink_(line_of({{"event", "straggler"},
                 {"step", t.step()},
                 {"rank", straggler.rank},
                 {"step_ms", straggler.seconds * 1e3},
                 {"others_step_ms", straggler.others * 1e3}}));
}

void MetricsLines::on_shares(Trainer& t, const std::vector<int64_t>& examples) {
  sink_(line_of({{"event", "shares"}, {"step", t.step()}, {"examples", examples}}));
}

void MetricsLines::on_lost_ranks(Trainer& t, const LostRanks& lost) {
  sink_(line_of({{"event", "lost"},
                 {"step", t.step()},
                 {"ranks", lost.ranks},
                 {"left", lost.left},
                 {"taken_back", lost.taken_back},
                 {"seconds", lost.seconds}}));
}

void MetricsLines::on_epoch_end(Trainer& t) {
  const Throughput r = t.report().throughput;
  sink_(line_of({{"event", "loader"},
                 {"epoch", static_cast<double>(t.step()) / static_cast<double>(t.steps_per_epoch())},
                 {"fetch", r.fetch},
                 {"preprocess", r.preprocess},
                 {"copy", r.copy},
                 {"compute", r.compute},
                 {"idle", r.idle},
                 {"starved", r.starved},
                 {"bottleneck", r.bottleneck()}}));
}

void MetricsLines::on_train_end(Trainer& t, Outcome outcome) {
  const RunReport r = t.report();
  Json event = {{"event", outcome == Outcome::interrupted ? "interrupted" : "done"},
                {"device", t.device().id()},
                {"step", t.step()},
                {"seconds", t.seconds()},
                {"median_step_ms", r.median_step_seconds * 1e3},
                {"kernels_per_step", r.kernels_per_step},
                {"peak_device_bytes", r.peak_device_bytes}};
  if (outcome == Outcome::stopped) event["stopped"] = true;  // before its last step
  if (r.samples_per_second > 0) event["samples_per_second"] = r.samples_per_second;
  if (const int64_t tokens = t.task().training().tokens; tokens > 0 && r.samples_per_second > 0)
    event["tokens_per_second"] = r.samples_per_second * static_cast<double>(tokens);
  for (const Evaluation& e : {t.evaluation(), t.tested()}) {
    if (e.examples > 0) event[e.split + "_loss"] = e.loss;
    for (const auto& [name, value] : e.metrics) event[e.split + "_" + name] = value;
  }
  if (t.step() > t.first_step()) event["loss"] = t.last_loss();
  for (const Figure& figure : t.task().figures())
    std::visit([&](const auto& value) { event[figure.name] = value; }, figure.value);
  if (const Replicas* ranks = t.replicas()) {
    event["ranks"] = ranks->size();
    event["mesh"] = ranks->mesh();
    event["bytes_sent_per_step"] = r.bytes_sent;
    event["communication_hidden"] = r.communication_hidden;
    for (const double seconds : r.rank_seconds) event["rank_step_ms"].push_back(seconds * 1e3);
    if (r.bubble) event["bubble"] = *r.bubble;
    event["parameters_sha256"] = t.weights_sha256();
  }
  if (t.config().checkpoint.use_best) event["model_step"] = t.model_step();
  if (!t.checkpoint_path().empty()) event["checkpoint"] = t.checkpoint_path();
  sink_(line_of(event));
}

}  // namespace heddle::train
