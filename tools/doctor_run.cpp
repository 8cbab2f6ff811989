#include "tools/doctor_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <set>

#include "checks/device_checks.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/base/similar.h"
#include "tools/interrupt.h"
#include "tools/progress.h"
#include "tools/worker_process.h"

namespace heddle::tools {
namespace {

using Answer = WorkerProcess::Answer;
using Clock = std::chrono::steady_clock;

bool interrupted() { return InterruptScope::caught(); }

class Doctor {
 public:
  explicit Doctor(const DoctorRequest& request)
      : request_(request), checks_(checks::device_checks()), progress_(request.silent), start_(Clock::now()) {
    check_names();
    for (size_t number = 0; number < checks_.size(); ++number) {
      const checks::DeviceCheck& check = checks_[number];
      if (!wanted(check.part) && !wanted(check.function)) continue;
      numbers_.push_back(number);
      if (diagnosis_.parts.empty() || diagnosis_.parts.back().part != check.part)
        diagnosis_.parts.push_back({.part = check.part});
      ++diagnosis_.parts.back().left;
    }
  }

  Diagnosis run() {
    const InterruptScope scope;
    open_first();
    // Figures come before the longest part: they are what a short run must not lack.
    size_t next = 0;
    while (next < numbers_.size() && checks_[numbers_[next]].part != "functions" && goes_on()) check(next++);
    if (wanted("figures")) measure();
    while (next < numbers_.size() && goes_on() && !late()) check(next++);
    diagnosis_.seconds = seconds_since(start_);
    diagnosis_.interrupted = interrupted();
    return std::move(diagnosis_);
  }

 private:
  static constexpr int most_deaths = 5;

  bool wanted(const std::string& name) const {
    return request_.only.empty() || std::find(request_.only.begin(), request_.only.end(), name) != request_.only.end();
  }
  // ValueError for a name in `only` that is neither a part nor a function.
  void check_names() const {
    std::set<std::string> known{"figures"};
    for (const checks::DeviceCheck& check : checks_) known.insert({check.part, check.function});
    const std::vector<std::string_view> names(known.begin(), known.end());
    for (const std::string& name : request_.only) {
      if (name.empty() || !known.contains(name))
        throw ValueError(fmt::format("[doctor] there are no checks of '{}'{}", name, did_you_mean(name, names)));
    }
  }

  bool goes_on() const { return !interrupted() && !diagnosis_.gave_up; }
  bool late() const { return request_.seconds > 0 && seconds_since(start_) > request_.seconds; }
  PartCount& part(const std::string& name) {
    return *std::find_if(diagnosis_.parts.begin(), diagnosis_.parts.end(),
                         [&](const PartCount& p) { return p.part == name; });
  }

  // Null where the process ended, stopped or said nothing that can be read: `how` and end_ say so.
  Json ask(const Json& request, Answer& how, double limit) {
    std::string answer;
    how = worker_->ask(request.dump(), limit, answer, interrupted);
    if (how != Answer::line) return nullptr;
    Json json = Json::parse(answer, nullptr, false);
    return json.is_object() ? json : Json(nullptr);
  }

  Json open(Answer& how) {
    std::vector<std::string> arguments{"doctor", "--worker"};
    if (!request_.device.empty()) arguments.insert(arguments.end(), {"--device", request_.device});
    worker_ = std::make_unique<WorkerProcess>(arguments, std::getenv("HEDDLE_DEBUG") != nullptr);
    return ask({{"open", true}}, how, std::max(request_.limit, 60.0));
  }

  void open_first() {
    Answer how{};
    const Json opened = open(how);
    if (how == Answer::interrupted) return;
    const std::string name = request_.device.empty() ? "the default device" : request_.device;
    if (how == Answer::timeout) throw DeviceTimeout(fmt::format("[doctor] {} did not open in time", name));
    if (opened.is_null())
      throw DeviceError(
          fmt::format("[doctor] the driver of {} ended the process that opened it ({})", name, worker_->end()));
    if (opened.contains("error")) {
      const std::string text = opened["error"].get<std::string>();
      if (opened.value("user", false)) throw ValueError(text);
      throw DeviceError(text);
    }
    diagnosis_.device = opened.at("device").get<std::string>();
    diagnosis_.environment = opened.at("environment");
  }

  // The answer to a request; what ended or stopped the process becomes {"status", "what"}, and the next request gets a
  // new one.
  Json answer(const Json& request, double limit) {
    Answer how{};
    if (!worker_->alive()) {
      const Json opened = open(how);
      if (opened.is_null() || opened.contains("error")) {
        diagnosis_.gave_up = true;
        return {{"status", "crashed"}, {"what", "the device cannot be opened again"}};
      }
    }
    Json json = ask(request, how, limit);
    if (how == Answer::interrupted) return nullptr;
    if (!json.is_null() && !json.contains("error")) return json;
    diagnosis_.gave_up = ++deaths_ >= most_deaths;
    if (how == Answer::timeout) return {{"status", "hung"}, {"what", fmt::format("no answer within {} s", limit)}};
    if (how == Answer::ended) return {{"status", "crashed"}, {"what", worker_->end()}};
    const std::string what = json.is_null() ? "an answer that cannot be read" : json["error"].get<std::string>();
    worker_->kill();  // the device may be lost
    return {{"status", "failed"}, {"what", what}};
  }

  void check(size_t at) {
    const size_t number = numbers_[at];
    const checks::DeviceCheck& check = checks_[number];
    show(check.part + ": " + check.name, static_cast<double>(at) / static_cast<double>(numbers_.size()));
    const Json result = answer({{"check", number}}, request_.limit);
    if (result.is_null()) return;
    PartCount& count = part(check.part);
    --count.left;
    const std::string status = result.at("status").get<std::string>(), what = result.at("what").get<std::string>();
    if (status == checks::name_of(checks::CheckResult::Status::passed)) {
      ++count.passed;
    } else if (status == checks::name_of(checks::CheckResult::Status::lacking)) {
      ++count.lacking;
      note_lack(what);
    } else {
      ++count.bad;
      diagnosis_.findings.push_back({check.part, check.name, status, what});
    }
  }

  void note_lack(const std::string& what) {
    for (auto& [known, number] : diagnosis_.lacking) {
      if (known == what) {
        ++number;
        return;
      }
    }
    diagnosis_.lacking.emplace_back(what, 1);
  }

  void measure() {
    for (int number = 0; goes_on(); ++number) {
      show("figures", 0);
      const Json result = answer({{"figure", number}}, 2 * request_.limit);
      if (result.is_null() || result.contains("none")) return;
      if (result.contains("status"))
        diagnosis_.findings.push_back({"figures", fmt::format("figure {}", number), result["status"].get<std::string>(),
                                       result["what"].get<std::string>()});
      else
        diagnosis_.figures.push_back({result["name"].get<std::string>(), result["unit"].get<std::string>(),
                                      result["value"].get<double>(), result["of_bound"].get<double>()});
    }
  }

  void show(const std::string& what, double share) {
    if (!progress_.due()) return;
    const double gone = seconds_since(start_);
    if (request_.seconds > 0) share = std::max(share, gone / request_.seconds);
    progress_.show("doctor", std::min(share, 1.0), fmt::format("{}  {}", clock_time(gone), what));
  }

  DoctorRequest request_;
  std::vector<checks::DeviceCheck> checks_;
  std::vector<size_t> numbers_;  // of the checks that are wanted
  Progress progress_;
  Clock::time_point start_;
  std::unique_ptr<WorkerProcess> worker_;
  int deaths_ = 0;
  Diagnosis diagnosis_;
};

}  // namespace

Diagnosis diagnose(const DoctorRequest& request) { return Doctor(request).run(); }

}  // namespace heddle::tools
