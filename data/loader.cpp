#include "heddle/data/loader.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"

namespace heddle::data {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto meanwhile_interval = std::chrono::microseconds(200);

constexpr int64_t unknown = std::numeric_limits<int64_t>::max();

// What a batch is made of: numbers of examples, or examples that a stream gave.
struct Claim {
  int64_t batch = 0;
  std::vector<int64_t> indices;
  std::vector<Sample> read;
};

}  // namespace

// Where claims come from; an epoch has one. claim() is called by one thread at a time, in the order of batches.
class Loader::Source {
 public:
  explicit Source(LoaderOptions options) : options_(std::move(options)) {}
  virtual ~Source() = default;
  virtual int64_t batches() const = 0;
  virtual void begin(uint64_t epoch, int64_t first_batch) = 0;
  // Nothing at the end.
  virtual std::optional<Claim> claim(int64_t batch) = 0;
  virtual Sample example(Claim& claim, size_t i, Random& random) const = 0;

  Sample make(Claim& claim, uint64_t epoch, LoaderReport& report, const Callable<void()>& after_each = {}) const {
    const auto start = Clock::now();
    const size_t whole = std::max(claim.indices.size(), claim.read.size());
    const size_t count = options_.part.size > 0 ? static_cast<size_t>(options_.part.size) : whole;
    const auto first = static_cast<size_t>(options_.part.first);
    std::vector<Sample> samples;
    std::vector<Random> random;
    for (size_t i = 0; i < count; ++i) {
      random.emplace_back(options_.seed, epoch,
                          static_cast<uint64_t>(claim.batch) * static_cast<uint64_t>(options_.batch) + first + i);
      samples.push_back(example(claim, first + i, random.back()));
      if (after_each) after_each();
    }
    report.fetch += seconds_since(start);
    const auto preprocessing = Clock::now();
    for (size_t i = 0; i < count; ++i) {
      for (const Transform& transform : options_.transforms) samples[i] = transform(std::move(samples[i]), random[i]);
    }
    report.preprocess += seconds_since(preprocessing);
    const auto collating = Clock::now();
    Sample batch = options_.collate(samples);
    report.collate += seconds_since(collating);
    report.examples += static_cast<int64_t>(count);
    return batch;
  }
  const LoaderOptions& options() const { return options_; }

 protected:
  LoaderOptions options_;
};

namespace {

void check(const BatchPart& part, const LoaderOptions& o) {
  if (part.first < 0 || part.size < 0 || part.first > o.batch || part.size > o.batch - part.first ||
      (part.size == 0 && part.first > 0))
    throw ValueError(fmt::format("[loader] {} examples from place {} on are no part of a batch of {}", part.size,
                                 part.first, o.batch));
  if (part.size > 0 && !o.drop_last) throw ValueError("[loader] parts are made of whole batches: drop_last must be on");
}

void check(const LoaderOptions& o) {
  if (o.batch < 1) throw ValueError(fmt::format("[loader] the batch size is {}, expected at least 1", o.batch));
  if (o.workers < 0 || o.workers > 1024)
    throw ValueError(fmt::format("[loader] {} workers; expected 0 to 1024", o.workers));
  if (o.prefetch < 0) throw ValueError(fmt::format("[loader] prefetch is {}, expected 0 or more batches", o.prefetch));
  check(o.part, o);
  if (!o.collate) throw ValueError("[loader] the collate function is empty");
}

}  // namespace

// One epoch in the making: batches that are ready, and the workers that make them.
class Loader::Epoch {
 public:
  Epoch(Source& source, uint64_t epoch, int64_t first)
      : source_(source),
        epoch_(epoch),
        claimed_(first),
        taken_(first),
        end_(source.batches() < 0 ? unknown : source.batches()) {
    source_.begin(epoch, first);
    last_ = Clock::now();
    const LoaderOptions& o = source.options();
    ahead_ = o.prefetch > 0 ? o.prefetch : 2 * o.workers;
    start(static_cast<size_t>(o.workers));
  }
  ~Epoch() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    room_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  bool next(Sample& batch, const Callable<void()>& meanwhile) {
    report_.loop += seconds_since(last_);
    const auto start = Clock::now();
    const bool more = workers_.empty() ? make_here(batch, meanwhile) : take(batch, meanwhile);
    report_.waiting += seconds_since(start);
    last_ = Clock::now();
    return more;
  }

  Position position() const { return {epoch_, taken_}; }
  LoaderReport report() const {
    const std::lock_guard lock(mutex_);
    return report_;
  }

 private:
  struct Made {
    Sample batch;
    std::exception_ptr error;
  };

  // As many as the system has threads and memory for; without any the batches are made by who asks for them.
  void start(size_t workers) {
    try {
      workers_.reserve(workers);
      while (workers_.size() < workers) workers_.emplace_back([this] { work(); });
    } catch (const std::exception&) {
    }
  }

  bool make_here(Sample& batch, const Callable<void()>& meanwhile) {
    if (taken_ >= end_) return false;
    std::optional<Claim> claim = source_.claim(taken_);
    if (!claim) {
      end_ = taken_;
      return false;
    }
    ++taken_;
    batch = source_.make(*claim, epoch_, report_, meanwhile);
    ++report_.batches;
    return true;
  }

  bool take(Sample& batch, const Callable<void()>& meanwhile) {
    Made made;
    {
      std::unique_lock lock(mutex_);
      const auto there = [&] { return taken_ >= end_ || made_.contains(taken_) || broken_; };
      while (meanwhile && !ready_.wait_for(lock, meanwhile_interval, there)) {
        lock.unlock();
        meanwhile();
        lock.lock();
      }
      ready_.wait(lock, there);
      if (broken_ && !made_.contains(taken_)) std::rethrow_exception(broken_);
      if (taken_ >= end_) return false;
      made = std::move(made_.extract(taken_).mapped());
      ++taken_;
      ++report_.batches;
    }
    room_.notify_all();
    if (made.error) std::rethrow_exception(made.error);
    batch = std::move(made.batch);
    return true;
  }

  void work() {
    try {
      make_batches();
    } catch (...) {  // no memory to hand over a batch, or the reason why there is none
      const std::lock_guard lock(mutex_);
      broken_ = std::current_exception();
      stop_ = true;
      ready_.notify_all();
      room_.notify_all();
    }
  }

  void make_batches() {
    while (std::optional<Claim> claim = next_claim()) {
      Made made;
      LoaderReport spent;
      try {
        made.batch = source_.make(*claim, epoch_, spent);
      } catch (...) {
        made.error = std::current_exception();
      }
      finish(claim->batch, std::move(made), spent);
    }
  }

  // Claims are given out in order, one at a time, and only as far ahead as there is room.
  std::optional<Claim> next_claim() {
    const std::lock_guard in_turn(claiming_);
    {
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] { return stop_ || claimed_ >= end_ || claimed_ - taken_ < ahead_; });
      if (stop_ || claimed_ >= end_) return std::nullopt;
    }
    const int64_t batch = claimed_;
    std::optional<Claim> claim;
    Made failed;
    try {
      claim = source_.claim(batch);
    } catch (...) {
      failed.error = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    if (claim) {
      ++claimed_;
      return claim;
    }
    if (failed.error) made_.emplace(batch, std::move(failed));
    end_ = batch + (made_.contains(batch) ? 1 : 0);
    ready_.notify_all();
    room_.notify_all();
    return std::nullopt;
  }

  void finish(int64_t batch, Made made, const LoaderReport& spent) {
    const std::lock_guard lock(mutex_);
    made_.emplace(batch, std::move(made));
    report_.fetch += spent.fetch;
    report_.preprocess += spent.preprocess;
    report_.collate += spent.collate;
    report_.examples += spent.examples;
    ready_.notify_all();
  }

  Source& source_;
  const uint64_t epoch_;
  int64_t ahead_ = 0;
  std::mutex claiming_;       // held while a claim is made
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable ready_, room_;
  int64_t claimed_, taken_, end_;
  std::map<int64_t, Made> made_;
  LoaderReport report_;
  bool stop_ = false;
  std::exception_ptr broken_;  // what ended a worker
  Clock::time_point last_;
  std::vector<std::thread> workers_;  // last: they use all of the above
};

namespace {

class Numbered final : public Loader::Source {
 public:
  Numbered(DatasetPtr dataset, SamplerPtr sampler, LoaderOptions options)
      : Source(std::move(options)), dataset_(std::move(dataset)), sampler_(std::move(sampler)) {
    if (options_.drop_last && batches() == 0) {
      throw ValueError(fmt::format("[loader] the batch size is {}, but an epoch has only {} examples", options_.batch,
                                   sampler_->size()));
    }
  }
  int64_t batches() const override {
    const int64_t examples = sampler_->size(), batch = options_.batch;
    return options_.drop_last ? examples / batch : ceil_div(examples, batch);
  }
  void begin(uint64_t epoch, int64_t first) override {
    if (first < 0 || first > batches())
      throw ValueError(fmt::format("[loader] batch {} of an epoch of {}", first, batches()));
    order_ = sampler_->order(epoch);
    if (static_cast<int64_t>(order_.size()) != sampler_->size())
      throw ValueError(
          fmt::format("[loader] the sampler gave {} examples, but said {}", order_.size(), sampler_->size()));
    for (const int64_t index : order_) {
      if (index < 0 || index >= dataset_->size())
        throw ValueError(fmt::format("[loader] the sampler asks for example {} of {}", index, dataset_->size()));
    }
  }
  std::optional<Claim> claim(int64_t batch) override {
    const auto from = static_cast<size_t>(batch * options_.batch),
               to = std::min(order_.size(), from + static_cast<size_t>(options_.batch));
    return Claim{batch,
                 {order_.begin() + static_cast<std::ptrdiff_t>(from), order_.begin() + static_cast<std::ptrdiff_t>(to)},
                 {}};
  }
  Sample example(Claim& claim, size_t i, Random& random) const override {
    return dataset_->get(claim.indices[i], random);
  }

 private:
  DatasetPtr dataset_;
  SamplerPtr sampler_;
  std::vector<int64_t> order_;
};

class Streamed final : public Loader::Source {
 public:
  Streamed(IterableDatasetPtr dataset, LoaderOptions options)
      : Source(std::move(options)), dataset_(std::move(dataset)) {}
  int64_t batches() const override { return -1; }
  void begin(uint64_t epoch, int64_t first) override {
    int64_t passed = 0;
    if (first < 0 || __builtin_mul_overflow(first, options_.batch, &passed))
      throw ValueError(fmt::format("[loader] batch {} of an epoch", first));
    stream_ = dataset_->open(epoch);
    stream_->skip(passed);
  }
  std::optional<Claim> claim(int64_t batch) override {
    Claim claim{batch, {}, {}};
    while (static_cast<int64_t>(claim.read.size()) < options_.batch) {
      std::optional<Sample> sample = stream_->next();
      if (!sample) break;
      claim.read.push_back(std::move(*sample));
    }
    const bool enough =
        options_.drop_last ? static_cast<int64_t>(claim.read.size()) == options_.batch : !claim.read.empty();
    return enough ? std::optional(std::move(claim)) : std::nullopt;
  }
  Sample example(Claim& claim, size_t i, Random&) const override { return std::move(claim.read[i]); }

 private:
  IterableDatasetPtr dataset_;
  std::unique_ptr<SampleStream> stream_;
};

}  // namespace

LoaderReport& LoaderReport::operator+=(const LoaderReport& more) {
  fetch += more.fetch;
  preprocess += more.preprocess;
  collate += more.collate;
  waiting += more.waiting;
  loop += more.loop;
  batches += more.batches;
  examples += more.examples;
  return *this;
}

std::string LoaderReport::str() const {
  const double total = waiting + loop;
  return fmt::format(
      "{} examples in {} batches; fetch {:.3f} s, preprocess {:.3f} s, collate {:.3f} s, loop {:.3f} s; the loop "
      "waited for data {:.0f} % of the time",
      examples, batches, fetch, preprocess, collate, loop, total > 0 ? 100 * waiting / total : 0);
}

Collate LoaderOptions::stacked() { return stack; }

Loader::Loader(DatasetPtr dataset, SamplerPtr sampler, const LoaderOptions& options) {
  check(options);
  source_ = std::make_unique<Numbered>(std::move(dataset), std::move(sampler), options);
  start_epoch(0);
}
Loader::Loader(IterableDatasetPtr dataset, const LoaderOptions& options) {
  check(options);
  source_ = std::make_unique<Streamed>(std::move(dataset), options);
  start_epoch(0);
}
Loader::~Loader() = default;

int64_t Loader::batches() const { return source_->batches(); }
void Loader::start_epoch(uint64_t epoch, int64_t first_batch) {
  epoch_.reset();  // its workers end first
  epoch_ = std::make_unique<Epoch>(*source_, epoch, first_batch);
}
bool Loader::next(Sample& batch, const Callable<void()>& meanwhile) { return epoch_->next(batch, meanwhile); }
Loader::Position Loader::position() const { return epoch_->position(); }
LoaderReport Loader::report() const { return epoch_->report(); }

}  // namespace heddle::data
