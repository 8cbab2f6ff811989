#include "heddle/nn/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "heddle/core/base/error.h"

namespace heddle::nn {
namespace {

void check_rate(const char* name, const char* what, double value) {
  if (!(value >= 0) || std::isinf(value))
    throw ValueError(fmt::format("[schedule::{}] {} is {}; it must be finite and not negative", name, what, value));
}
void check_count(const char* name, const char* what, int64_t value, int64_t least = 1) {
  if (value < least)
    throw ValueError(fmt::format("[schedule::{}] {} is {}; it must be at least {}", name, what, value, least));
}

// The updates before the n-th; updates count from 1.
int64_t before(int64_t n) { return std::max<int64_t>(n, 1) - 1; }
// Progress from 0, at the first update, to 1.
double share_done(int64_t update, int64_t updates) {
  return std::clamp(static_cast<double>(before(update)) / static_cast<double>(updates), 0.0, 1.0);
}

double along_cosine(double from, double to, double share) {
  return to + (from - to) * 0.5 * (1 + std::cos(std::numbers::pi * share));
}
double along_line(double from, double to, double share) { return from + (to - from) * share; }

}  // namespace

namespace schedule {

Schedule constant(double lr) {
  check_rate("constant", "lr", lr);
  return [lr](int64_t) { return lr; };
}

Schedule step(double lr, int64_t every, double gamma) {
  check_rate("step", "lr", lr);
  check_rate("step", "gamma", gamma);
  check_count("step", "every", every);
  return [=](int64_t n) { return lr * std::pow(gamma, static_cast<double>(before(n) / every)); };
}

Schedule multi_step(double lr, std::vector<int64_t> milestones, double gamma) {
  check_rate("multi_step", "lr", lr);
  check_rate("multi_step", "gamma", gamma);
  if (!std::is_sorted(milestones.begin(), milestones.end()))
    throw ValueError("[schedule::multi_step] the milestones are not ascending");
  return [=, milestones = std::move(milestones)](int64_t n) {
    const auto passed = std::upper_bound(milestones.begin(), milestones.end(), before(n)) - milestones.begin();
    return lr * std::pow(gamma, static_cast<double>(passed));
  };
}

Schedule exponential(double lr, double gamma) {
  check_rate("exponential", "lr", lr);
  check_rate("exponential", "gamma", gamma);
  return [=](int64_t n) { return lr * std::pow(gamma, static_cast<double>(before(n))); };
}

Schedule linear(double lr, int64_t updates, double from, double to) {
  check_rate("linear", "lr", lr);
  check_rate("linear", "from", from);
  check_rate("linear", "to", to);
  check_count("linear", "updates", updates);
  return [=](int64_t n) { return lr * along_line(from, to, share_done(n, updates)); };
}

Schedule polynomial(double lr, int64_t updates, double power) {
  check_rate("polynomial", "lr", lr);
  check_rate("polynomial", "power", power);
  check_count("polynomial", "updates", updates);
  return [=](int64_t n) { return lr * std::pow(1 - share_done(n, updates), power); };
}

Schedule cosine(double lr, int64_t updates, double least) {
  check_rate("cosine", "lr", lr);
  check_rate("cosine", "least", least);
  check_count("cosine", "updates", updates);
  return [=](int64_t n) { return along_cosine(lr, least, share_done(n, updates)); };
}

Schedule cosine_restarts(double lr, int64_t first_cycle, int64_t growth, double least) {
  check_rate("cosine_restarts", "lr", lr);
  check_rate("cosine_restarts", "least", least);
  check_count("cosine_restarts", "first_cycle", first_cycle);
  check_count("cosine_restarts", "growth", growth);
  return [=](int64_t n) {
    int64_t at = before(n), length = first_cycle;
    if (growth == 1) at %= length;
    while (at >= length) {
      at -= length;
      if (__builtin_mul_overflow(length, growth, &length)) length = std::numeric_limits<int64_t>::max();
    }
    return along_cosine(lr, least, static_cast<double>(at) / static_cast<double>(length));
  };
}

Schedule one_cycle(double highest, int64_t updates, const OneCycle& options) {
  check_rate("one_cycle", "highest", highest);
  check_rate("one_cycle", "start", options.start);
  check_rate("one_cycle", "end", options.end);
  check_count("one_cycle", "updates", updates, 2);
  if (!(options.rising > 0 && options.rising < 1))
    throw ValueError(fmt::format("[schedule::one_cycle] rising is {}; it must be between 0 and 1", options.rising));
  const double top = options.rising * static_cast<double>(updates) - 1, last = static_cast<double>(updates) - 1;
  const double first = highest * options.start, end = first * options.end;
  const auto along = options.cosine ? along_cosine : along_line;
  return [=](int64_t n) {
    const double at = std::min(static_cast<double>(before(n)), last);
    return at <= top ? along(first, highest, top > 0 ? at / top : 1.0) : along(highest, end, (at - top) / (last - top));
  };
}

Schedule cyclical(double lowest, double highest, int64_t up, int64_t down, double shrink) {
  check_rate("cyclical", "lowest", lowest);
  check_rate("cyclical", "highest", highest);
  check_rate("cyclical", "shrink", shrink);
  check_count("cyclical", "up", up);
  check_count("cyclical", "down", down, 0);
  const uint64_t rise = static_cast<uint64_t>(up), length = rise + static_cast<uint64_t>(down == 0 ? up : down);
  return [=](int64_t n) {
    const uint64_t passed = static_cast<uint64_t>(before(n)), cycle = passed / length, at = passed % length;
    const double height = at <= rise ? static_cast<double>(at) / static_cast<double>(rise)
                                     : static_cast<double>(length - at) / static_cast<double>(length - rise);
    return lowest + (highest - lowest) * height * std::pow(shrink, static_cast<double>(cycle));
  };
}

Schedule warmup(int64_t updates, Schedule then, double from) {
  check_count("warmup", "updates", updates, 0);
  check_rate("warmup", "from", from);
  return [=, then = std::move(then)](int64_t given) {
    const int64_t n = std::max<int64_t>(given, 1);
    return n > updates ? then(n - updates) : then(1) * along_line(from, 1, share_done(n, updates));
  };
}

Schedule sequence(std::vector<std::pair<Schedule, int64_t>> parts) {
  if (parts.empty()) throw ValueError("[schedule::sequence] there are no parts");
  for (const auto& [part, updates] : parts) check_count("sequence", "a part's number of updates", updates, 0);
  return [parts = std::move(parts)](int64_t n) {
    size_t i = 0;
    for (; i + 1 < parts.size() && n > parts[i].second; ++i) n -= parts[i].second;
    return parts[i].first(n);
  };
}

Schedule product(Schedule a, Schedule b) {
  return [a = std::move(a), b = std::move(b)](int64_t n) { return a(n) * b(n); };
}

}  // namespace schedule

Plateau::Plateau(double lr, const PlateauOptions& options)
    : options_(options), lr_(lr), best_((options.larger_is_better ? -1 : 1) * std::numeric_limits<double>::infinity()) {
  if (!(lr >= 0) || std::isinf(lr))
    throw ValueError(fmt::format("[Plateau] lr is {}; it must be finite and not negative", lr));
  if (!(options.factor >= 0 && options.factor < 1))
    throw ValueError(fmt::format("[Plateau] factor is {}; it must be in [0, 1)", options.factor));
  if (options.patience < 0 || options.cooldown < 0)
    throw ValueError("[Plateau] patience and cooldown must not be negative");
}

double Plateau::observe(double metric) {
  const double margin = options_.threshold * std::abs(best_);
  const bool better = std::isinf(best_)           ? !std::isnan(metric)
                      : options_.larger_is_better ? metric > best_ + margin
                                                  : metric < best_ - margin;
  if (better) best_ = metric;
  bad_ = better ? 0 : std::min(bad_, std::numeric_limits<int64_t>::max() - 1) + 1;
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ > options_.patience) {
    lr_ = std::max(lr_ * options_.factor, options_.least);
    cooling_ = options_.cooldown;
    bad_ = 0;
  }
  return lr_;
}

void Plateau::set_state(const State& state) {
  if (state.bad < 0 || state.cooling < 0) {
    throw ValueError(fmt::format("[Plateau] the state counts {} observations and {} of a cooldown; neither is negative",
                                 state.bad, state.cooling));
  }
  lr_ = state.lr;
  best_ = state.best;
  bad_ = state.bad;
  cooling_ = state.cooling;
}

}  // namespace heddle::nn
