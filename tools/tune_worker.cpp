#ifdef HEDDLE_HAS_BENCH
#include "tools/tune_worker.h"

#include <fmt/format.h>

#include <cstdlib>

#include "bench/tune_session.h"
#include "heddle/core/base/error.h"

namespace heddle::tools {
namespace {

TuningKey key_of(const Json& json) {
  return {json.at("body").get<std::string>(), json.at("variant").get<std::string>(),
          json.at("sizes").get<std::vector<int64_t>>()};
}

Bindings bindings_of(const Json& json) {
  Bindings values;
  for (const auto& [name, value] : json.items()) values[name] = value.get<int64_t>();
  return values;
}

Json json_of(const bench::Trial& trial) {
  return {{"status", std::string(bench::name_of(trial.status))},
          {"ratio", trial.ratio},
          {"seconds", trial.seconds},
          {"default_seconds", trial.default_seconds},
          {"what", trial.what}};
}

bench::Trial trial_of(const Json& json) {
  using Status = bench::Trial::Status;
  bench::Trial trial;
  const std::string status = json.at("status").get<std::string>();
  for (const Status s : {Status::ok, Status::wrong, Status::compile, Status::launch, Status::hang, Status::crash}) {
    if (bench::name_of(s) == status) trial.status = s;
  }
  trial.ratio = json.at("ratio").get<double>();
  trial.seconds = json.at("seconds").get<double>();
  trial.default_seconds = json.at("default_seconds").get<double>();
  trial.what = json.at("what").get<std::string>();
  return trial;
}

Json open_case(const Json& request, DeviceContext& device, std::unique_ptr<bench::TuneSession>& session) {
  const char* faults = std::getenv("HEDDLE_TUNE_FAULT");
  const bench::Family& family = bench::find_family(request.at("family").get<std::string>());
  const bench::Case c = bench::make_case(family, request.at("case").get<std::string>(),
                                         parse_dtype(request.at("dtype").get<std::string>()));
  session.reset();  // its memory, before the next one's
  session = std::make_unique<bench::TuneSession>(c, device, bench::parse_faults(faults == nullptr ? "" : faults));
  Json uses = Json::array();
  for (const TuningUse& use : session->uses())
    uses.push_back({{"key", tools::json_of(use.key)}, {"fallback", tools::json_of(use.fallback)}});
  return {{"uses", std::move(uses)}, {"default_seconds", session->default_seconds()}};
}

}  // namespace

Json json_of(const TuningKey& key) { return {{"body", key.body}, {"variant", key.variant}, {"sizes", key.sizes}}; }

Json json_of(const Bindings& values) {
  Json json = Json::object();
  for (const auto& [name, value] : values) json[name] = value;
  return json;
}

void run_tune_worker(const std::string& name) {
  DeviceContext& device = open_device(name, true);
  std::unique_ptr<bench::TuneSession> session;
  answer_lines([&](const Json& request) {
    if (request.contains("open")) return open_case(request["open"], device, session);
    const Json& t = request.at("trial");
    if (!session) throw std::logic_error("no case is open");
    return json_of(session->trial(key_of(t.at("key")), bindings_of(t.at("tunables")), t.at("careful").get<bool>()));
  });
}

Json TuneWorker::ask(const Json& request, double seconds, WorkerProcess::Answer& how) {
  std::string answer;
  how = process_->ask(request.dump(), seconds, answer, interrupted_);
  if (how != WorkerProcess::Answer::line) return {};
  return Json::parse(answer);
}

Json TuneWorker::open_request() const {
  return {{"open", {{"family", case_.family}, {"case", case_.name}, {"dtype", std::string(name_of(case_.dtype))}}}};
}

Json TuneWorker::reopen(WorkerProcess::Answer& how) {
  if (!process_ || !process_->alive()) {
    const bool keep_errors = std::getenv("HEDDLE_DEBUG") != nullptr;
    process_ =
        std::make_unique<WorkerProcess>(std::vector<std::string>{"tune", "--worker", "--device", device_}, keep_errors);
  }
  return ask(open_request(), limits_.open_seconds, how);
}

std::vector<TuningUse> TuneWorker::open(const bench::Case& c) {
  case_ = c;
  WorkerProcess::Answer how{};
  const Json answer = reopen(how);
  if (how == WorkerProcess::Answer::interrupted) return {};
  const std::string place = fmt::format("[tune] {} {}", c.family, c.name);
  if (how == WorkerProcess::Answer::timeout)
    throw DeviceError(fmt::format("{}: the default did not finish within {} s", place, limits_.open_seconds));
  if (how == WorkerProcess::Answer::ended)
    throw DeviceError(fmt::format("{}: the worker ended with {} while it ran the default", place, process_->end()));
  if (answer.contains("error")) {
    const std::string text = answer["error"].get<std::string>();
    if (answer["user"].get<bool>()) throw ValueError(text);
    throw DeviceError(text);
  }
  std::vector<TuningUse> uses;
  for (const Json& use : answer.at("uses"))
    uses.push_back({key_of(use.at("key")), bindings_of(use.at("fallback")), {}});
  return uses;
}

bench::Trial TuneWorker::trial(const TuningKey& key, const Bindings& values, bool careful) {
  bench::Trial lost;
  lost.status = bench::Trial::Status::crash;
  WorkerProcess::Answer how{};
  if (!process_ || !process_->alive()) {
    const Json opened = reopen(how);
    if (how != WorkerProcess::Answer::line || opened.contains("error")) {
      lost.what = "the worker could not be started again";
      return lost;
    }
  }
  const Json answer =
      ask({{"trial", {{"key", tools::json_of(key)}, {"tunables", tools::json_of(values)}, {"careful", careful}}}},
          limits_.trial_seconds, how);
  if (how == WorkerProcess::Answer::line && !answer.contains("error")) return trial_of(answer);
  if (how == WorkerProcess::Answer::timeout) lost.status = bench::Trial::Status::hang;
  if (how == WorkerProcess::Answer::line) {
    // The device may be lost: what follows gets a fresh process.
    lost.what = answer["error"].get<std::string>();
    process_->kill();
  } else if (how == WorkerProcess::Answer::ended) {
    lost.what = process_->end();
  }
  return lost;
}

}  // namespace heddle::tools
#endif
