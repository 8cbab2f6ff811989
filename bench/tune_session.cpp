#include "bench/tune_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/base/text_stream.h"
#include "heddle/core/device/context.h"
#include "heddle/core/run/graph_cache.h"

namespace heddle::bench {
namespace {

// A candidate this much slower than the default is not measured further.
constexpr double hopeless = 1.6;

struct WrongResult : Error {
  using Error::Error;
};

std::vector<std::vector<float>> results_of(const Workload& workload) {
  std::vector<Tensor> tensors = workload.run();
  if (tensors.empty())
    eval_pending();
  else
    eval(std::span<const Tensor>(tensors));
  std::vector<std::vector<float>> values;
  for (const Tensor& t : tensors) values.push_back(floats_of(t));
  return values;
}

void commit_fault(const std::string& kind) {
  if (kind == "hang") {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  if (kind == "crash") std::abort();
  if (kind == "compile") throw CompileError("[tune] a fault on purpose", "");
  if (kind == "launch") throw LimitError("[tune] a fault on purpose");
}

}  // namespace

std::vector<Fault> parse_faults(const std::string& text) {
  std::vector<Fault> faults;
  TextInput in(text);
  for (std::string part; std::getline(in, part, ',');) {
    const size_t equals = part.find('='), colon = part.find(':');
    if (equals == std::string::npos || colon == std::string::npos || colon < equals)
      throw ValueError(fmt::format("[tune] fault '{}' is not NAME=VALUE:KIND", part));
    faults.push_back(
        {part.substr(0, equals), std::strtoll(part.c_str() + equals + 1, nullptr, 10), part.substr(colon + 1)});
  }
  return faults;
}

TuneSession::TuneSession(const Case& c, DeviceContext& device, std::vector<Fault> faults)
    : case_(c), device_(device), faults_(std::move(faults)) {
  check_room(c, device);
  workload_ = c.make({device, {}});
  const TuningOff defaults;
  {
    const TuningRecorder recorder;
    check_workload(c, workload_, device, &expected_);
    uses_ = recorder.uses();
  }
  default_side_ = heddle_side(workload_, device, false);
  default_seconds_ = quick_seconds(default_side_, 3);
}

// Against the default's results. What keeps state starts again, so that both did the same.
void TuneSession::check(const Workload& workload, bool spoil) const {
  std::vector<std::vector<float>> ours = results_of(workload);
  if (spoil && !ours.empty() && !ours[0].empty()) ours[0][0] += 1;
  if (ours.size() != expected_.size()) throw WrongResult("another number of results");
  for (size_t i = 0; i < ours.size(); ++i) {
    const std::string what = difference(ours[i], expected_[i], 2 * case_.tolerance);
    if (!what.empty()) throw WrongResult(fmt::format("result {}, {}", i, what));
  }
}

Trial TuneSession::trial(const TuningKey& key, const Bindings& values, bool careful) {
  Trial trial;
  const auto failed = [&](Trial::Status status, const std::exception& error) {
    trial.status = status;
    trial.what = error.what();
  };
  try {
    trial = measured(key, values, careful);
  } catch (const WrongResult& error) {
    failed(Trial::Status::wrong, error);
  } catch (const CompileError& error) {
    failed(Trial::Status::compile, error);
  } catch (const DeviceLost&) {
    throw;  // nothing more can be learnt in this process
  } catch (const Error& error) {
    failed(Trial::Status::launch, error);
  }
  device_.synchronize();
  graph_cache(device_).clear();  // a candidate's plan is not needed again
  return trial;
}

Trial TuneSession::measured(const TuningKey& key, const Bindings& values, bool careful) {
  const TuningOff defaults;
  const ScopedTuning forced(key, values);
  bool spoil = false;
  for (const Fault& fault : faults_) {
    const auto found = values.find(fault.tunable);
    if (found == values.end() || found->second != fault.value) continue;
    spoil |= fault.kind == "wrong";
    commit_fault(fault.kind);
  }
  const Workload fresh = case_.stateful ? case_.make({device_, {}}) : Workload{};
  const Workload& workload = case_.stateful ? fresh : workload_;
  check(workload, spoil);
  const Side candidate = heddle_side(workload, device_, false);
  Trial trial;
  const double quick = quick_seconds(candidate, 2);
  if (!careful && quick > hopeless * default_seconds_) {
    trial.seconds = quick;
    trial.default_seconds = default_seconds_;
    trial.ratio = default_seconds_ / quick;
    return trial;
  }
  Timing timing;
  timing.repetitions = careful ? 15 : 5;
  timing.repetition_seconds = careful ? 5e-3 : 2e-3;
  timing.warm_up = 2;
  std::vector<Side> sides = {default_side_, candidate};
  for (Side& side : sides) side.settle_seconds = 0;  // both use the same threads
  const std::vector<std::vector<double>> seconds = measure(sides, timing);
  const Spread ratio = ratio_spread(seconds[0], seconds[1]);
  trial.default_seconds = median(seconds[0]);
  trial.seconds = median(seconds[1]);
  // A winner that is to be kept must win in most repetitions, not in half of them.
  trial.ratio = careful ? std::min(ratio.median, ratio.low * 1.03) : ratio.median;
  return trial;
}

}  // namespace heddle::bench
