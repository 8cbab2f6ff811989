#include "bench/search.h"

#include <algorithm>
#include <set>

#include "heddle/core/graph/philox.h"

namespace heddle::bench {

std::string_view name_of(Trial::Status status) {
  switch (status) {
    case Trial::Status::ok:
      return "ok";
    case Trial::Status::wrong:
      return "wrong";
    case Trial::Status::compile:
      return "compile";
    case Trial::Status::launch:
      return "launch";
    case Trial::Status::hang:
      return "hang";
    case Trial::Status::crash:
      break;
  }
  return "crash";
}

namespace {

// A step must gain this much to be taken: less is noise.
constexpr double least_gain = 1.01;

class Searcher {
 public:
  explicit Searcher(const SearchInput& in) : in_(in), current_(in.start) {
    for (const KernelTunable& t : in.space.tunables) current_.emplace(t.name, t.value);
    result_.best = searched(current_);
    result_.trial.ratio = 1;
    seen_.insert(signature(current_));
  }

  SearchResult run() {
    for (const Bindings& seed : in_.seeds) {
      Bindings values = current_;
      for (const auto& [name, value] : seed) {
        if (values.contains(name)) values[name] = value;
      }
      consider(values);
    }
    while (!done()) {
      if (!pass() && !jump()) break;
    }
    return result_;
  }

 private:
  bool done() const { return result_.counts.tried >= in_.most || in_.stop(); }

  // What may be searched and makes a difference, or has to replace a value of the default; without facts that the start
  // carries.
  Bindings searched(const Bindings& values) const {
    Bindings mine;
    for (const KernelTunable& t : in_.space.tunables) {
      if (in_.start.contains(t.name) || in_.space.matters(in_.body, t.name, values)) mine[t.name] = values.at(t.name);
    }
    return mine;
  }

  // Values of the tunables that matter: two points with one signature are the same kernel.
  Bindings signature(const Bindings& values) const {
    Bindings mine;
    for (const KernelTunable& t : in_.space.tunables) {
      if (in_.space.matters(in_.body, t.name, values)) mine[t.name] = values.at(t.name);
    }
    return mine;
  }

  // Evaluates a new point; true when it became the best.
  bool consider(const Bindings& values) {
    if (done() || !in_.space.refusal(in_.body, values).empty() || !seen_.insert(signature(values)).second) return false;
    const Trial trial = in_.evaluate(searched(values));
    SearchCounts& counts = result_.counts;
    ++counts.tried;
    counts.wrong += trial.status == Trial::Status::wrong;
    counts.hung += trial.status == Trial::Status::hang;
    counts.failed += trial.status == Trial::Status::compile || trial.status == Trial::Status::launch ||
                     trial.status == Trial::Status::crash;
    if (trial.status != Trial::Status::ok || trial.ratio < result_.trial.ratio * least_gain) return false;
    current_ = values;
    result_.best = searched(values);
    result_.trial = trial;
    return true;
  }

  // One pass of coordinate descent; true when something was gained.
  bool pass() {
    bool gained = false;
    for (const KernelTunable& t : in_.space.tunables) {
      if (done()) break;
      if (!in_.space.matters(in_.body, t.name, current_)) continue;
      for (const int64_t choice : t.choices) {
        Bindings values = current_;
        values[t.name] = choice;
        gained |= consider(values);
      }
    }
    return gained;
  }

  // Random points near and far; true when one was gained, so that descent goes on from there.
  bool jump() {
    constexpr int attempts = 2000;
    for (int i = 0; i < attempts && !done(); ++i) {
      Bindings values = current_;
      const bool far = i % 4 == 3;
      const uint32_t changes = far ? static_cast<uint32_t>(in_.space.tunables.size()) : 2 + draw() % 2;
      for (uint32_t c = 0; c < changes; ++c) {
        const KernelTunable& t = in_.space.tunables[far ? c : draw() % in_.space.tunables.size()];
        values[t.name] = t.choices[draw() % t.choices.size()];
      }
      if (consider(values)) return true;
    }
    return false;
  }

  uint32_t draw() { return philox({drawn_++, 0, 0, 0}, {in_.seed, 7})[0]; }

  const SearchInput& in_;
  Bindings current_;
  SearchResult result_;
  std::set<Bindings> seen_;
  uint32_t drawn_ = 0;
};

}  // namespace

SearchResult search(const SearchInput& input) { return Searcher(input).run(); }

}  // namespace heddle::bench
