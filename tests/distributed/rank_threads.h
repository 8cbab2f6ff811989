// A world of threads: a function runs once for each rank, with a world of its own over transports in this process.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/core/base/hash.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/core/functions/random/generator_scope.h"
#include "heddle/distributed/local_transport.h"
#include "heddle/distributed/world.h"

namespace heddle::distributed::test {

// Says "not yet" at times, so that messages end in another order than they began.
class Hesitant final : public Transport {
 public:
  Hesitant(std::unique_ptr<Transport> inner, uint64_t seed) : inner_(std::move(inner)), state_(seed * 2 + 1) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }
  Message send(int to, int tag, std::span<const std::byte> bytes) override { return inner_->send(to, tag, bytes); }
  Message receive(int from, int tag, std::span<std::byte> bytes) override { return inner_->receive(from, tag, bytes); }
  bool finished(Message message) override {
    state_ = hash_combine(state_, message);
    return state_ % 3 == 0 && inner_->finished(message);
  }
  void push() override { inner_->push(); }
  void give_up() noexcept override { inner_->give_up(); }

 private:
  std::unique_ptr<Transport> inner_;
  uint64_t state_;
};

struct RankOptions {
  WorldOptions world;
  uint64_t hesitant = 0;  // 0: messages end as they come
};

inline std::unique_ptr<World> world_of(const LocalWorld& local, int rank, const RankOptions& options = {}) {
  return std::make_unique<World>(
      [&local, rank, seed = options.hesitant]() -> std::unique_ptr<Transport> {
        if (seed == 0) return local.transport(rank);
        return std::make_unique<Hesitant>(local.transport(rank), seed + static_cast<uint64_t>(rank));
      },
      options.world);
}

// What each rank threw, as text; "" for those that ended. Each draws from a generator of its own, as a process does,
// which goes on from where the caller's is.
inline std::vector<std::string> run_ranks(int ranks, const std::function<void(const LocalWorld&, World&)>& f,
                                          const RankOptions& options = {}) {
  const LocalWorld local(ranks);
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  std::vector<Generator> generators(static_cast<size_t>(ranks), default_generator());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const GeneratorScope own(generators[static_cast<size_t>(rank)]);
      try {
        const std::unique_ptr<World> world = world_of(local, rank, options);
        f(local, *world);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

inline std::vector<std::string> run_ranks(int ranks, const std::function<void(World&)>& f,
                                          const RankOptions& options = {}) {
  return run_ranks(
      ranks, [&f](const LocalWorld&, World& world) { f(world); }, options);
}

// All end.
inline void all_ranks(int ranks, const std::function<void(World&)>& f, const RankOptions& options = {}) {
  const std::vector<std::string> errors = run_ranks(ranks, f, options);
  for (size_t rank = 0; rank < errors.size(); ++rank) EXPECT_EQ(errors[rank], "") << "rank " << rank;
}

}  // namespace heddle::distributed::test
