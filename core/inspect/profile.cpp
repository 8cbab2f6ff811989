#include "heddle/core/inspect/profile.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/host_span.h"
#include "heddle/core/base/median.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/device/locked_device.h"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;
using FactsPtr = std::shared_ptr<const std::vector<KernelFacts>>;

// Backends remember the times of their last 64 submissions.
constexpr size_t most_waiting = 32;

struct Waiting {
  Ticket ticket;
  FactsPtr facts;
  double submitted = 0;
};

// A submission with the times of its device's own clock.
struct Timed {
  Waiting what;
  std::vector<CommandTime> times;
  bool own_clock = true;  // false: only durations are known
};

struct DeviceLog {
  std::deque<Waiting> waiting;
  std::vector<Timed> timed;
};

// Shifts a device's clock to the host's.
double clock_shift(const std::vector<Timed>& timed) {
  double shift = -1e300;
  for (const Timed& t : timed) {
    if (t.own_clock && !t.times.empty()) shift = std::max(shift, t.what.submitted - t.times.front().start);
  }
  return shift;
}

}  // namespace

class ProfilerState final : public SpanListener {
 public:
  struct OpenSpan {
    const char* name;
    double start;
  };
  struct ThreadLog {
    int number = 0;
    std::vector<OpenSpan> open;
    double recording_since = -1;
    size_t recording_depth = 0;
  };

  Clock::time_point began = Clock::now();
  std::mutex mutex;  // never held while a device is asked
  std::map<DeviceContext*, DeviceLog> devices;
  std::map<std::thread::id, ThreadLog> threads;
  Profile profile;
  bool stopped = false;

  double now() const { return seconds_since(began); }

  ThreadLog& here() {
    const auto [at, fresh] = threads.try_emplace(std::this_thread::get_id());
    if (fresh) at->second.number = static_cast<int>(threads.size()) - 1;
    return at->second;
  }

  void begin(const char* name) noexcept override {
    const std::lock_guard guard(mutex);
    here().open.push_back({name, now()});
  }
  void end() noexcept override {
    const std::lock_guard guard(mutex);
    ThreadLog& thread = here();
    if (thread.open.empty()) return;
    const OpenSpan span = thread.open.back();
    thread.open.pop_back();
    profile.host.push_back({span.name, thread.number, static_cast<int>(thread.open.size()), span.start, now()});
  }
  void recording(bool begins) {
    const std::lock_guard guard(mutex);
    ThreadLog& thread = here();
    if (begins) {
      thread.recording_since = now();
      thread.recording_depth = thread.open.size();
    } else if (thread.recording_since >= 0) {
      // Spans inside have ended; one that began outside and ended meanwhile would not nest.
      if (thread.open.size() == thread.recording_depth) {
        profile.host.push_back(
            {"record", thread.number, static_cast<int>(thread.open.size()), thread.recording_since, now()});
      }
      thread.recording_since = -1;
    }
  }

  // The times of the oldest submissions are fetched before the device forgets them.
  void note(DeviceContext& device, Waiting waiting) {
    std::vector<Waiting> due;
    {
      const std::lock_guard guard(mutex);
      DeviceLog& log = devices[&device];
      log.waiting.push_back(std::move(waiting));
      while (log.waiting.size() > most_waiting) {
        due.push_back(std::move(log.waiting.front()));
        log.waiting.pop_front();
      }
    }
    for (Waiting& w : due) fetch(device, std::move(w));
  }

  void fetch(DeviceContext& device, Waiting waiting) {
    Timed timed{std::move(waiting), {}, true};
    try {
      std::vector<double> seconds;
      device.wait(timed.what.ticket, &seconds);
      timed.times = device.lock().device.command_times(timed.what.ticket);
      if (timed.times.empty()) chain(timed, seconds);
    } catch (const Error&) {  // whoever uses the device is told
    }
    const std::lock_guard guard(mutex);
    if (timed.times.size() != timed.what.facts->size())
      ++profile.dropped;
    else
      devices[&device].timed.push_back(std::move(timed));
  }

  static void chain(Timed& timed, const std::vector<double>& seconds) {
    double at = timed.what.submitted;
    timed.own_clock = false;
    for (const double s : seconds) {
      timed.times.push_back({at, at + s});
      at += s;
    }
  }

  void finish() {
    std::map<DeviceContext*, std::deque<Waiting>> left;
    {
      const std::lock_guard guard(mutex);
      for (auto& [device, log] : devices) left.emplace(device, std::exchange(log.waiting, {}));
    }
    for (auto& [device, waiting] : left) {
      for (Waiting& w : waiting) fetch(*device, std::move(w));
    }
    const std::lock_guard guard(mutex);
    for (const auto& [device, log] : devices) add(device->id(), log.timed);
    profile.seconds = now();
  }

  // Kernels that do the same have one number.
  class Numbers {
   public:
    explicit Numbers(Profile& profile) : profile_(profile) {}
    const std::vector<size_t>& of(const std::string& device, const FactsPtr& facts) {
      const auto [at, fresh] = known_.try_emplace(facts.get());
      if (fresh) {
        for (const KernelFacts& f : *facts) at->second.push_back(number(device, f));
      }
      return at->second;
    }

   private:
    size_t number(const std::string& device, const KernelFacts& facts) {
      const auto found = std::find_if(profile_.kernels.begin(), profile_.kernels.end(), [&](const ProfiledKernel& k) {
        return k.device == device && k.facts.same_as(facts);
      });
      if (found != profile_.kernels.end()) return static_cast<size_t>(found - profile_.kernels.begin());
      profile_.kernels.push_back({device, facts});
      return profile_.kernels.size() - 1;
    }
    Profile& profile_;
    std::unordered_map<const void*, std::vector<size_t>> known_;
  };

  void add(const std::string& device, const std::vector<Timed>& timed) {
    Numbers numbers(profile);
    const double shift = clock_shift(timed);
    double before = 0;  // a device works in order
    for (const Timed& t : timed) {
      const double by = t.own_clock ? shift : std::max(0.0, before - t.what.submitted);
      const std::vector<size_t>& kernels = numbers.of(device, t.what.facts);
      Submission submission{device, t.what.submitted, t.times.front().start + by, t.times.front().end + by};
      for (size_t i = 0; i < t.times.size(); ++i) {
        const KernelSpan run{kernels[i], profile.submissions.size(), t.times[i].start + by, t.times[i].end + by};
        submission.start = std::min(submission.start, run.start);
        submission.end = std::max(submission.end, run.end);
        profile.runs.push_back(run);
      }
      before = submission.end;
      profile.submissions.push_back(std::move(submission));
    }
  }
};

namespace {

// The one at work. Held while it is used: it may stop on another thread meanwhile.
struct Current {
  std::mutex mutex;
  std::atomic<bool> active{false};
  std::shared_ptr<ProfilerState> state;
};

Current& current() {
  static Current* const instance = new Current();  // tensors of static objects may submit until the process ends
  return *instance;
}

std::shared_ptr<ProfilerState> state_at_work() {
  Current& here = current();
  if (!here.active.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard guard(here.mutex);
  return here.state;
}

}  // namespace

bool Profiler::active() { return current().active.load(std::memory_order_relaxed); }

void Profiler::note(DeviceContext& device, Ticket ticket, std::shared_ptr<const std::vector<KernelFacts>> facts,
                    double submitted) {
  if (const auto state = state_at_work()) state->note(device, {ticket, std::move(facts), submitted});
}

double Profiler::now() {
  const auto state = state_at_work();
  return state ? state->now() : 0;
}

void Profiler::recording(bool begins) {
  if (const auto state = state_at_work()) state->recording(begins);
}

Profiler::Profiler() : state_(std::make_shared<ProfilerState>()) {
  Current& here = current();
  {
    const std::lock_guard guard(here.mutex);
    if (here.state) throw ValueError("[profile] a profiler is at work already; stop it first");
    here.state = state_;
  }
  here.active = true;
  add_span_listener(*state_);
}

Profiler::~Profiler() { stop(); }

const Profile& Profiler::stop() {
  if (state_->stopped) return state_->profile;
  Current& here = current();
  here.active = false;
  remove_span_listener(*state_);
  {
    const std::lock_guard guard(here.mutex);
    here.state.reset();
  }
  state_->finish();
  state_->stopped = true;
  return state_->profile;
}

// ---- Profile

std::vector<KernelRow> Profile::rows() const {
  std::vector<std::vector<double>> times(kernels.size());
  for (const KernelSpan& run : runs) times[run.kernel].push_back(run.end - run.start);
  std::vector<KernelRow> rows;
  for (size_t k = 0; k < kernels.size(); ++k) {
    std::vector<double>& values = times[k];
    if (values.empty()) continue;
    KernelRow row{kernels[k].device, kernels[k].facts, values.size()};
    for (const double s : values) row.total += s;
    row.median = median(std::move(values));
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const KernelRow& a, const KernelRow& b) { return a.total > b.total; });
  return rows;
}

double Profile::kernel_seconds() const {
  double sum = 0;
  for (const KernelSpan& run : runs) sum += run.end - run.start;
  return sum;
}

double Profile::device_seconds() const {
  double sum = 0;
  for (const Submission& s : submissions) sum += s.end - s.start;
  return sum;
}

}  // namespace heddle
