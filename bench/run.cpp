#include "bench/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "heddle/core/base/error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/device/context.h"
#include "heddle/core/run/replay.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle::bench {
namespace {

// Up to this much work the reference evaluator answers in about a second.
constexpr double reference_flops = 4e7, reference_bytes = 3e7;

std::vector<Tensor> evaluate(const Workload& workload) {
  std::vector<Tensor> results = workload.run();
  if (!results.empty())
    eval(std::span<const Tensor>(results));
  else
    eval_pending();
  return results;
}

std::vector<std::vector<float>> values_of(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<float>> values;
  for (const Tensor& t : tensors) values.push_back(floats_of(t));
  return values;
}

[[noreturn]] void wrong(const Case& c, const DeviceContext& device, std::string_view against, const std::string& what) {
  throw DeviceError(fmt::format("[bench] {} {} {} on {} is wrong against {}: {}", c.family, c.name,
                                heddle::name_of(c.dtype), device.id(), against, what));
}

// True when tuned() answers some kernel of this workload with other values than the defaults.
bool tuned_differs(const Workload& workload) {
  const TuningRecorder recorder;
  evaluate(workload);
  return std::any_of(recorder.uses().begin(), recorder.uses().end(),
                     [](const TuningUse& use) { return use.values != use.fallback; });
}

// What the reference has computed of a result.
std::span<const float> compared_part(const Case& c, std::span<const float> ours, size_t count) {
  return c.last_part && count <= ours.size() ? ours.last(count) : ours;
}

double available_bytes() {
  const uint64_t bytes = os::memory_bytes();
  return bytes > 0 ? static_cast<double>(bytes) : 1e18;
}

}  // namespace

void check_room(const Case& c, const DeviceContext& device) {
  const auto gib = [](double bytes) { return bytes / (1 << 30); };
  const double memory = available_bytes();
  if (c.resident_bytes > 0.8 * memory) {
    throw ValueError(fmt::format("[bench] {} {} needs about {:.3g} GiB; this machine has {:.3g}", c.family, c.name,
                                 gib(c.resident_bytes), gib(memory)));
  }
  const Caps& caps = device.caps();
  const double most = static_cast<double>(std::min(caps.max_binding_bytes, caps.max_allocation_bytes));
  if (caps.target != Target::none && c.largest_bytes > most) {
    throw ValueError(fmt::format("[bench] {} {}: a tensor of {:.3g} GiB; {} takes at most {:.3g} in one binding",
                                 c.family, c.name, gib(c.largest_bytes), device.id(), gib(most)));
  }
}

std::string check_workload(const Case& c, const Workload& workload, DeviceContext& device,
                           std::vector<std::vector<float>>* results) {
  const std::vector<std::vector<float>> ours = values_of(evaluate(workload));
  if (results != nullptr) *results = ours;
  std::string checked;
  if (workload.check) {
    const std::string what = workload.check(ours);
    if (!what.empty()) wrong(c, device, "its own check", what);
    checked = "case";
  }
  for (const PeerCall& peer : workload.peers) {
    peer.call();
    if (!peer.result || ours.empty()) continue;
    const std::string what = difference(ours[0], peer.result(), c.tolerance);
    if (!what.empty()) wrong(c, device, peer.peer, what);
    checked = "peer";
  }
  const bool quick = c.flops <= reference_flops && c.bytes <= reference_bytes;
  if (checked.empty() && !ours.empty() && quick && device.caps().target != Target::none) {
    const Workload same = (c.last_part ? c.last_part : c.make)({heddle::device("reference:0"), {}});
    const std::vector<std::vector<float>> expected = values_of(evaluate(same));
    for (size_t i = 0; i < ours.size(); ++i) {
      const std::string what = difference(compared_part(c, ours[i], expected[i].size()), expected[i], c.tolerance);
      if (!what.empty()) wrong(c, device, "the reference", fmt::format("result {}, {}", i, what));
    }
    checked = "reference";
  }
  return checked;
}

Side heddle_side(const Workload& workload, DeviceContext& device, bool loop, size_t* launches) {
  if (loop || device.caps().target == Target::none) {
    auto kept = std::make_shared<std::vector<Tensor>>();
    return {[&workload, kept] { *kept = evaluate(workload); }, [&device] { device.synchronize(); }};
  }
  evaluate(workload);  // compiles, and settles what the first step makes (optimizer state)
  auto kept = std::make_shared<std::vector<Tensor>>();
  const Replay replay = Replay::capture([&] { *kept = evaluate(workload); });
  device.synchronize();
  if (launches != nullptr) *launches = replay.kernels();
  return {[replay, kept] { replay.run(); }, [&device] { device.synchronize(); }};
}

namespace {

// After a first evaluation: what one takes now, a call takes. A long one is repeated: a step that finds its optimizer's
// state may have compiled other kernels.
void check_duration(const Case& c, const Workload& workload, DeviceContext& device, const Options& options) {
  if (options.longest_call <= 0) return;
  double seconds = 0;
  for (int attempt = 0; attempt < 2; ++attempt) {
    device.synchronize();  // some drivers compile behind the queue
    const auto start = std::chrono::steady_clock::now();
    evaluate(workload);
    device.synchronize();
    seconds = seconds_since(start);
    if (seconds <= options.longest_call) return;
  }
  throw TooSlow(
      fmt::format("[bench] {} {} takes {:.3g} s a call on {}; left out", c.family, c.name, seconds, device.id()));
}

}  // namespace

Row measure_case(const Case& c, DeviceContext& device, Bounds& bounds, const Options& options) {
  if (c.host) {
    Row row;
    row.family = c.family;
    row.name = c.name;
    row.device = device.id();
    row.dtype = c.dtype;
    row.host = true;
    constexpr int few = 3;  // they have no limit of time of their own
    row.seconds = spread(c.host(device, options.timing.most_seconds > 0 ? few : options.timing.repetitions));
    return row;
  }
  check_room(c, device);
  const Workload workload = c.make({device, options.peers});
  Row row;
  row.family = c.family;
  row.name = c.name;
  row.device = device.id();
  row.dtype = c.dtype;
  row.flops = c.flops;
  row.bytes = c.bytes;
  const uint64_t before = device.memory().live_bytes;
  device.reset_peak_memory();
  evaluate(workload);
  check_duration(c, workload, device, options);
  row.extra_bytes = device.memory().peak_bytes - std::min(before, device.memory().peak_bytes);
  row.checked = c.stateful ? "" : check_workload(c, workload, device);

  std::vector<Side> sides = {heddle_side(workload, device, options.loop, &row.launches)};
  for (const PeerCall& peer : workload.peers) sides.push_back({peer.call, [] {}, peer.settle_seconds});
  const Probe* probe = bounds.probe(c.bound, c.bytes);
  if (probe != nullptr) sides.push_back(probe->side);
  const bool compared = options.compare_tuning && tuned_differs(workload);
  if (compared) {
    const TuningOff off;
    Side side = heddle_side(workload, device, options.loop);
    sides.push_back({[call = std::move(side.call)] {
                       const TuningOff none;
                       call();
                     },
                     side.finish});
  }
  const std::vector<std::vector<double>> seconds = measure(sides, options.timing);

  row.seconds = spread(seconds[0]);
  size_t at = 1;
  for (const PeerCall& peer : workload.peers) {
    row.peers.push_back({peer.peer, spread(seconds[at]), ratio_spread(seconds[at], seconds[0])});
    ++at;
  }
  if (probe != nullptr) {
    row.bound = c.bound;
    row.bound_how = probe->how;
    row.bound_rate = probe->amount / median(seconds[at]);
    bounds.add(c.bound, probe->amount, seconds[at]);
    // Time that the bound would need for this case's work, over the time it took.
    const double share = (c.bound == Bound::compute ? c.flops : c.bytes) / probe->amount;
    row.fraction = ratio_spread(seconds[at], seconds[0]);
    for (double* value : {&row.fraction.median, &row.fraction.low, &row.fraction.high}) *value *= share;
    ++at;
  }
  row.tuned_same = options.compare_tuning && !compared;
  if (compared)
    row.tuned_over_default = ratio_spread(seconds[at], seconds[0]);
  else if (options.compare_tuning)
    row.tuned_over_default = Spread{1, 1, 1};
  return row;
}

}  // namespace heddle::bench
