#ifdef HEDDLE_HAS_BENCH
#include "tools/tune_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/signals.h"
#include "heddle/core/base/system/terminal.h"
#include "heddle/core/dialect/tunable_space.h"
#include "heddle/io/atomic_file.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/progress.h"
#include "tools/tune_worker.h"

namespace heddle::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Winners below this are noise: the default stays.
constexpr double least_win = 1.03;
// What a winner may cost in another case of the same key.
constexpr double least_shared = 0.98;

struct Winner {
  TuningKey key;
  std::string place;  // the case
  size_t at = 0;      // its number
  bench::SearchResult search;
  bool kept = false;  // better than the default
};

class Tuner {
 public:
  Tuner(const TuneRequest& request, const std::string& device)
      : request_(request),
        info_(open_device(device, true).info()),
        worker_(info_.id, {120, request.time_limit}, InterruptScope::caught),
        terminal_(!request.json && os::is_terminal(os::Stream::output)),
        start_(Clock::now()) {
    if (info_.caps.target == Target::none)
      throw ValueError(fmt::format("[tune] {} runs no kernels; choose another device", info_.id));
    std::error_code code;
    if (!request.dry_run) {
      const std::string folder = fs::path(request.output).parent_path().string();
      require_writable_folder(folder.empty() ? "." : folder);
    }
    if (!request.output.empty() && fs::exists(request.output, code)) table_ = TuningTable::load(request.output);
  }

  void run() {
    for (at_ = 0; at_ < request_.cases.size() && !InterruptScope::caught(); ++at_) tune_case(request_.cases[at_]);
    verify();
    erase();
  }

 private:
  double elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  bool wanted(const TuningKey& key) const {
    if (!has_tunable_space(key.body) || tunable_space(key.body).tunables.empty()) return false;
    if (!request_.bodies.empty() &&
        std::find(request_.bodies.begin(), request_.bodies.end(), key.body) == request_.bodies.end())
      return false;
    return std::find(done_.begin(), done_.end(), key) == done_.end();
  }

  void tune_case(const bench::Case& c) {
    place_ = fmt::format("{} {}", c.family, c.name);
    show("");
    std::vector<TuningUse> uses;
    try {
      uses = worker_.open(c);
    } catch (const Error& error) {
      if (request_.cases.size() == 1) throw;
      line(fmt::format("{}: left out: {}", place_, one_line(error.what())));
      return;
    }
    for (const TuningUse& use : uses) check_winner(use.key, least_shared);
    std::erase_if(uses, [&](const TuningUse& use) { return !wanted(use.key); });
    // What is left of the budget, in equal parts.
    const double share = std::max(0.0, request_.budget - elapsed()) / static_cast<double>(request_.cases.size() - at_);
    for (size_t u = 0; u < uses.size() && !InterruptScope::caught(); ++u) {
      done_.push_back(uses[u].key);
      tune_key(uses[u], share / static_cast<double>(uses.size()));
    }
  }

  void tune_key(const TuningUse& use, double seconds) {
    const double end = elapsed() + seconds;
    bench::SearchInput input;
    input.body = use.key.body;
    input.space = tunable_space(use.key.body);
    if (input.space.generated)
      std::erase_if(input.space.tunables, [&](const KernelTunable& t) { return !use.fallback.contains(t.name); });
    input.start = use.fallback;
    input.seeds = seeds(use.key);
    double best = 1;
    int tried = 0;
    input.evaluate = [&](const Bindings& values) {
      const bench::Trial trial = worker_.trial(use.key, values, false);
      if (trial.status == bench::Trial::Status::ok) best = std::max(best, trial.ratio);
      show(fmt::format("{} tried, best {:.2f}x", ++tried, best));
      return trial;
    };
    constexpr int least = 3;  // also when the machine was so busy that the budget is gone
    input.stop = [&] { return InterruptScope::caught() || (tried >= least && elapsed() > end); };
    Winner found{use.key, place_, at_, bench::search(input), false};
    if (InterruptScope::caught()) return;
    bench::Trial& trial = found.search.trial;
    if (trial.ratio > 1) {
      trial = worker_.trial(use.key, found.search.best, true);
      found.kept = trial.status == bench::Trial::Status::ok && trial.ratio > least_win;
    }
    // Once more, some time later: a winner by luck does not win twice.
    if (found.kept) {
      const bench::Trial again = worker_.trial(use.key, found.search.best, true);
      found.kept = again.status == bench::Trial::Status::ok && again.ratio > least_win;
      if (again.ratio < trial.ratio) trial = again;
    }
    if (InterruptScope::caught()) return;
    store(found);
    report(found);
    if (found.kept) winners_.push_back(found);
  }

  // Several cases may share a key: a winner that was found with one must not harm another.
  void check_winner(const TuningKey& key, double least) {
    const auto found = std::find_if(winners_.begin(), winners_.end(), [&](const Winner& f) { return f.key == key; });
    if (found == winners_.end() || InterruptScope::caught()) return;
    const bench::Trial trial = worker_.trial(key, found->search.best, true);
    if (InterruptScope::caught() || (trial.status == bench::Trial::Status::ok && trial.ratio >= least)) return;
    Winner refused = *found;
    winners_.erase(found);
    refused.kept = false;
    refused.place = place_;
    refused.search.trial = trial;
    store(refused);
    report(refused);
  }

  // At the end every winner is measured beside the default once more: what no longer wins is dropped.
  void verify() {
    const std::vector<Winner> all = winners_;
    for (const Winner& f : all) {
      if (InterruptScope::caught()) return;
      place_ = f.place;
      show("verified");
      try {
        worker_.open(request_.cases[f.at]);
      } catch (const Error& error) {
        line(fmt::format("{}: not verified: {}", f.place, one_line(error.what())));
        continue;
      }
      check_winner(f.key, least_win);
    }
  }

  // Winners of other shapes, of this run and of earlier ones.
  std::vector<Bindings> seeds(const TuningKey& key) {
    std::vector<Bindings> all;
    for (const TuningEntry& e : table_.section(info_).entries) {
      if (e.key.body == key.body && !e.tunables.empty() && std::find(all.begin(), all.end(), e.tunables) == all.end())
        all.push_back(e.tunables);
    }
    constexpr size_t most = 12;
    if (all.size() > most) all.erase(all.begin(), all.end() - most);
    return all;
  }

  void store(const Winner& found) {
    TuningEntry entry{found.key, found.kept ? found.search.best : Bindings{}, found.search.trial.seconds,
                      found.search.trial.default_seconds};
    table_.section(info_).set(std::move(entry));
    if (request_.dry_run) return;
    try {
      write_file_atomically(request_.output, table_.str());
    } catch (const IoError& error) {
      const std::string rescue =
          (fs::temp_directory_path() / fmt::format("heddle-tuning-{}.json", os::process_id())).string();
      try {
        write_file_atomically(rescue, table_.str());
      } catch (const IoError&) {  // the disk is full there as well
        throw IoError(error.what());
      }
      throw IoError(fmt::format("{}; what was found so far is in {}", error.what(), rescue));
    }
  }

  void report(const Winner& found) {
    const bench::SearchCounts& n = found.search.counts;
    const bench::Trial& trial = found.search.trial;
    if (request_.json) {
      print_json({{"device", info_.id},
                  {"case", found.place},
                  {"key", tools::json_of(found.key)},
                  {"tunables", tools::json_of(found.kept ? found.search.best : Bindings{})},
                  {"kept", found.kept ? "tuned" : "default"},
                  {"ratio", found.kept ? trial.ratio : 1.0},
                  {"seconds", trial.seconds},
                  {"default_seconds", trial.default_seconds},
                  {"tried", n.tried},
                  {"wrong", n.wrong},
                  {"failed", n.failed},
                  {"hung", n.hung}});
      return;
    }
    line(fmt::format("{} {} ({}): {}; {} tried{}", info_.id, found.key.str(), found.place,
                     found.kept ? fmt::format("{:.2f} times as fast", trial.ratio) : "the default stays", n.tried,
                     n.wrong + n.failed + n.hung > 0
                         ? fmt::format(", refused: {} wrong, {} failed, {} hung", n.wrong, n.failed, n.hung)
                         : ""));
  }

  void show(const std::string& text) {
    if (!terminal_) return;
    const double share = std::clamp(elapsed() / request_.budget, 0.0, 1.0);
    const int full = static_cast<int>(share * 20);
    print_out(fmt::format("\r\x1b[K[{}{}] {}/{} {}  {}  ETA {}", std::string(static_cast<size_t>(full), '#'),
                          std::string(static_cast<size_t>(20 - full), '.'), at_ + 1, request_.cases.size(), place_,
                          text, clock_time(std::max(0.0, request_.budget - elapsed()))));
  }

  void erase() const {
    if (terminal_) print_out("\r\x1b[K");
  }

  void line(const std::string& text) const {
    erase();
    if (request_.json)
      print_error("heddle: {}\n", text);
    else
      print_out(text + '\n');
  }

  const TuneRequest& request_;
  DeviceInfo info_;
  TuneWorker worker_;
  TuningTable table_;
  std::vector<TuningKey> done_;
  std::vector<Winner> winners_;  // of this run
  std::string place_;
  size_t at_ = 0;
  bool terminal_;
  Clock::time_point start_;
};

}  // namespace

int run_tuner(const TuneRequest& request) {
  const InterruptScope on_interrupt;
  const os::IgnoredPipes a_dead_worker_is_seen_by_its_answer;
  for (const std::string& device : request.devices) {
    if (InterruptScope::caught()) break;
    Tuner(request, device).run();
  }
  return InterruptScope::exit_code();
}

}  // namespace heddle::tools
#endif
