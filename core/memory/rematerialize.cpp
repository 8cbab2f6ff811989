#include "heddle/core/memory/rematerialize.h"

#include <algorithm>
#include <limits>

#include "heddle/core/memory/kernel_sequence.h"

namespace heddle {
namespace {

constexpr size_t longest_chain = 96;  // launches repeated for one value
constexpr size_t most_tries = 300;    // candidates looked at in full for one choice
constexpr size_t most_choices = 20000;

// How to have values again before launch `at`.
struct Recipe {
  std::vector<int> units;  // in order
  std::set<int> unit_set;
  std::map<int, int> sources;  // base -> version that is still there, or is kept a little longer
  int64_t carried = 0;         // bytes of sources that will be alive at the fullest moment and were not
  double cost = 0;
};

struct Candidate {
  int version = -1;
  int at = 0;  // position of its next use after the fullest moment
  Recipe recipe;
  double score = 0;
};

class Search {
 public:
  Search(const SequenceFacts& facts, const KernelSequence& sequence) : facts_(facts), now_(sequence) {
    look(follow(now_));
  }

  // Until at most `bytes` are alive. With `exact` the last choices are as small as will do.
  bool run(int64_t bytes, bool exact) {
    for (size_t choice = 0; choice < most_choices; ++choice) {
      if (life_.peak <= bytes) return true;
      if (!choose(exact ? life_.peak - bytes : std::numeric_limits<int64_t>::max())) return false;
    }
    return false;
  }

  const KernelSequence& sequence() const { return now_; }
  int64_t peak() const { return life_.peak; }
  size_t followed() const { return followed_; }

 private:
  KernelSequence::Life follow(const KernelSequence& sequence) {
    ++followed_;
    return sequence.life(facts_);
  }

  void look(KernelSequence::Life life) {
    life_ = std::move(life);
    versions_.assign(facts_.bases.size(), {});
    for (size_t v = 0; v < now_.base.size(); ++v) {
      if (!life_.touches[v].empty()) versions_[static_cast<size_t>(now_.base[v])].push_back(static_cast<int>(v));
    }
    position_.assign(facts_.units_of.size(), 0);
    for (size_t i = 0; i < now_.launches.size(); ++i) {
      if (!now_.launches[i].repeated()) position_[static_cast<size_t>(now_.launches[i].kernel)] = static_cast<int>(i);
    }
  }

  const SequenceFacts::Base& base_of(int version) const {
    return facts_.bases[static_cast<size_t>(now_.base[static_cast<size_t>(version)])];
  }
  int last(int version) const { return life_.last(version, facts_, now_); }

  // Whether the inputs of a unit are what they were, just before launch `at`.
  bool inputs_unchanged(const SequenceFacts::Unit& unit, int at) const {
    const int made = position_[unit.kernel];
    for (int slot : unit.inputs) {
      const auto writers = facts_.writers.find(slot);
      if (writers == facts_.writers.end()) continue;
      for (size_t k : writers->second) {
        if (position_[k] >= made && position_[k] < at) return false;
      }
    }
    return true;
  }

  // A version of `base` that launch `at` may read, other than `gone`; -1: none. What dies after the fullest moment may
  // be kept until then; what died before only if it is small against what is gained.
  int source(int base, int at, int gone, int64_t gained, int64_t* carried) const {
    int best = -1;
    for (int v : versions_[static_cast<size_t>(base)]) {
      if (v == gone || life_.touches[static_cast<size_t>(v)].front() >= at) continue;
      if (best < 0 || last(v) > last(best)) best = v;
    }
    if (best < 0) return -1;
    *carried = last(best) >= life_.fullest ? 0 : base_of(best).bytes;
    return *carried * 4 <= gained ? best : -1;
  }

  // Depth first: units come after those they read from.
  bool extend(Recipe& recipe, int base, int at, int gone, int64_t gained) const {
    const int unit_number = facts_.bases[static_cast<size_t>(base)].unit;
    if (unit_number >= 0 && recipe.unit_set.contains(unit_number)) return true;
    if (recipe.sources.contains(base)) return true;
    int64_t carried = 0;
    if (const int v = source(base, at, gone, gained, &carried); v >= 0) {
      recipe.sources[base] = v;
      recipe.carried += carried;
      return recipe.carried < gained;
    }
    if (unit_number < 0 || recipe.unit_set.size() >= longest_chain) return false;
    const SequenceFacts::Unit& unit = facts_.units[static_cast<size_t>(unit_number)];
    if (!unit.repeatable || !inputs_unchanged(unit, at)) return false;
    recipe.unit_set.insert(unit_number);
    for (int input : unit.reads) {
      if (!extend(recipe, input, at, gone, gained)) return false;
    }
    recipe.units.push_back(unit_number);
    recipe.cost += unit.cost;
    return true;
  }

  // The later repetitions that these would replace.
  std::vector<int> replaced(const Recipe& recipe, int at, int gone) const {
    std::vector<int> versions;
    for (int u : recipe.units) {
      for (int b : facts_.units[static_cast<size_t>(u)].writes) {
        for (int v : versions_[static_cast<size_t>(b)]) {
          if (v != gone && life_.touches[static_cast<size_t>(v)].front() >= at) versions.push_back(v);
        }
      }
    }
    return versions;
  }

  bool make_candidate(int version, int64_t deficit, Candidate& out) const {
    const std::vector<int>& touches = life_.touches[static_cast<size_t>(version)];
    if (touches.empty() || touches.front() >= life_.fullest || touches.back() <= life_.fullest ||
        base_of(version).at_end)
      return false;
    const auto next = std::lower_bound(touches.begin(), touches.end(), life_.fullest);
    if (*next == life_.fullest) return false;
    out = {version, *next, {}, 0};
    const int64_t bytes = base_of(version).bytes;
    if (!extend(out.recipe, now_.base[static_cast<size_t>(version)], out.at, version, bytes)) return false;
    const int64_t gained = bytes - out.recipe.carried;
    double cost = out.recipe.cost;
    for (int v : replaced(out.recipe, out.at, version)) {
      const SequenceFacts::Unit& unit =
          facts_.units[static_cast<size_t>(facts_.bases[static_cast<size_t>(now_.base[static_cast<size_t>(v)])].unit)];
      cost -= unit.cost / static_cast<double>(unit.writes.size());
    }
    // What replaces later repetitions is nearly free, but never quite.
    out.score = static_cast<double>(std::min(gained, deficit)) / std::max(cost, 0.05 * out.recipe.cost + 1);
    return gained > 0;
  }

  KernelSequence applied(const Candidate& c, bool join_later) const {
    KernelSequence next = now_;
    const int added = static_cast<int>(c.recipe.units.size());
    std::vector<int> later;
    if (join_later) later = replaced(c.recipe, c.at, c.version);
    const std::map<int, int> made = next.repeat(facts_, c.recipe.units, c.at, c.recipe.sources);
    const int own = now_.base[static_cast<size_t>(c.version)];
    const auto remade = made.find(own);
    next.replace(c.version, remade != made.end() ? remade->second : c.recipe.sources.at(own), c.at + added);
    for (int v : later) next.replace(v, made.at(now_.base[static_cast<size_t>(v)]), c.at + added);
    next.drop_unread();
    return next;
  }

  bool choose(int64_t deficit) {
    std::vector<Candidate> candidates;
    for (size_t v = 0; v < now_.base.size(); ++v) {
      Candidate c;
      if (make_candidate(static_cast<int>(v), deficit, c)) candidates.push_back(std::move(c));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
    if (candidates.size() > most_tries) candidates.resize(most_tries);
    for (const Candidate& c : candidates) {
      for (const bool join_later : {true, false}) {
        if (!join_later && replaced(c.recipe, c.at, c.version).empty()) break;
        KernelSequence next = applied(c, join_later);
        KernelSequence::Life life = follow(next);
        if (life.peak > life_.peak || (life.peak == life_.peak && life.count >= life_.count)) continue;
        now_ = std::move(next);
        look(std::move(life));
        return true;
      }
    }
    return false;
  }

  const SequenceFacts& facts_;
  KernelSequence now_;
  KernelSequence::Life life_;
  std::vector<std::vector<int>> versions_;  // by base, alive anywhere
  std::vector<int> position_;               // by kernel
  size_t followed_ = 0;
};

}  // namespace

Rematerialized rematerialize(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels,
                             const Caps& caps, int64_t bytes) {
  const SequenceFacts facts(scheduled, kernels, caps);
  const KernelSequence start(facts);
  // Choices that aim at the limit may end in a corner that the same choices at full size avoid; those are the same for
  // every limit, so that the least memory found is a limit that can be met.
  Search exact(facts, start), thorough(facts, start);
  const bool met = exact.run(bytes, true);
  Rematerialized result;
  result.fits = met || thorough.run(bytes, false);
  const Search& search = met ? exact : thorough;
  result.peak = search.peak();
  result.followed = exact.followed() + thorough.followed();
  result.repeated = search.sequence().launches.size() - kernels.size();
  result.graph = scheduled.graph;
  result.kernels = rebind(search.sequence(), facts, kernels, result.graph);
  return result;
}

}  // namespace heddle
