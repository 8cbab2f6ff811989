// What ranks are told that disagree, that wait for one who does not come, or whose transport fails.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "heddle/distributed/errors.h"
#include "tests/distributed/rank_threads.h"
#include "tests/support/expect_error.h"

namespace heddle::distributed {
namespace {

using test::run_ranks;

void expect_parts(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << text << " lacks: " << part;
}

// Rank 2 of three makes another call than ranks 0 and 1.
void expect_mismatch(const std::function<Ticket(Group&, float*)>& usual,
                     const std::function<Ticket(Group&, float*)>& other, const std::vector<std::string>& parts) {
  const auto f = [&](World& world) {
    Group all = world.all();
    float values[24] = {};
    (world.rank() == 2 ? other : usual)(all, values).wait();
  };
  for (const std::string& error : run_ranks(3, f, {.world = {.limit_seconds = 30}})) expect_parts(error, parts);
}

Ticket sum_of_four(Group& group, float* values) { return group.all_reduce(values, DType::f32, {4}); }

TEST(Mismatch, NamesRanksAndCalls) {
  expect_mismatch(
      sum_of_four, [](Group& group, float* values) { return group.all_gather(values, values + 4, DType::f32, {4}); },
      {"call 0 of all ranks: ranks made different calls: ranks 0 and 1: all_reduce sum f32 (4) (faults_test.cpp:",
       "; rank 2: all_gather f32 (4) (faults_test.cpp:"});
  expect_mismatch(sum_of_four, [](Group& group, float* values) { return group.all_reduce(values, DType::f64, {4}); },
                  {"ranks 0 and 1: all_reduce sum f32 (4)", "rank 2: all_reduce sum f64 (4)"});
  expect_mismatch(sum_of_four,
                  [](Group& group, float* values) {
                    return group.all_reduce(values, DType::f32, {2, 2});
                  },
                  {"f32 (4)", "rank 2: all_reduce sum f32 (2, 2)"});
  expect_mismatch(sum_of_four,
                  [](Group& group, float* values) { return group.all_reduce(values, DType::f32, {4}, Reduction::max); },
                  {"all_reduce sum", "rank 2: all_reduce max"});
  expect_mismatch([](Group& group, float* values) { return group.broadcast(values, DType::f32, {4}, 0); },
                  [](Group& group, float* values) { return group.broadcast(values, DType::f32, {4}, 2); },
                  {"broadcast f32 (4) from 0", "rank 2: broadcast f32 (4) from 2"});
  expect_mismatch([](Group& group, float*) { return group.barrier(); }, sum_of_four, {"ranks 0 and 1: barrier"});
}

// The receiver knows what was sent; the sender's values are gone already.
TEST(Mismatch, OfSizesOfParts) {
  const auto parts = [](std::vector<int64_t> sizes) {
    return [sizes](Group& group, float* values) { return group.reduce_scatter(values, DType::f32, sizes); };
  };
  expect_mismatch(parts({4, 2, 0}), parts({2, 4, 0}),
                  {"ranks 0 and 1: reduce_scatter sum f32 (6) in parts ", "; rank 2: reduce_scatter sum f32 (6) in "});
}

TEST(Mismatch, OfAMessage) {
  const auto errors = run_ranks(2, [](World& world) {
    float values[8] = {};
    Group all = world.all();
    if (world.rank() == 0)
      all.send(values, DType::f32, {8}, 1).wait();
    else
      all.receive(values, DType::f32, {4}, 0).wait();
  });
  EXPECT_EQ(errors[0], "");
  expect_parts(errors[1],
               {"[receive] call 0 of all ranks, from 0 to 1", "rank 0: send f32 (8)", "rank 1: receive f32 (4)"});
}

TEST(Mismatch, BreaksTheWorld) {
  const auto f = [](World& world) {
    Group all = world.all();
    float values[4] = {}, later = 0;
    std::string first, second;
    const Ticket beside = all.barrier();
    try {
      all.all_reduce(values, DType::f32, {world.rank() + 1}).wait();
    } catch (const MismatchError& error) {
      first = error.what();
    }
    tests::expect_error<CommunicationError>(
        [&] { all.all_reduce(&later, DType::f32, {}).wait(); },
        {"[all_reduce] call 2 of all ranks: the world is broken: [all_reduce] call 1"});
    EXPECT_NE(first, "");
  };
  for (const std::string& error : run_ranks(2, f)) EXPECT_EQ(error, "");
}

TEST(TimeLimit, NamesWhoHasNotCalled) {
  const auto f = [](World& world) {
    Group all = world.all();
    float values[4] = {};
    if (world.rank() == 1 || world.rank() == 3) return;
    tests::expect_error<CommunicationTimeout>(
        [&] { all.all_reduce(values, DType::f32, {4}).wait(); },
        {fmt::format(
             "[all_reduce] call 0 of all ranks: rank {} waited 1 s for all_reduce sum f32 (4) (faults_test.cpp:",
             world.rank())
             .c_str(),
         "): ranks 1 and 3 have not made this call"});
  };
  for (const std::string& error : run_ranks(4, f, {.world = {.limit_seconds = 1}})) EXPECT_EQ(error, "");
}

TEST(TimeLimit, NamesTheSenderOfAMessage) {
  const auto f = [](World& world) {
    float value = 0;
    if (world.rank() == 0) return;
    tests::expect_error<CommunicationTimeout>(
        [&] { world.all().receive(&value, DType::f32, {}, 0).wait(); },
        {"[receive] call 0 of all ranks, from 0 to 1", "rank 0 has not made its send"});
  };
  for (const std::string& error : run_ranks(2, f, {.world = {.limit_seconds = 1}})) EXPECT_EQ(error, "");
}

// A transport that fails at its n-th message, or cannot be opened.
class Failing final : public Transport {
 public:
  Failing(std::unique_ptr<Transport> inner, int good) : inner_(std::move(inner)), good_(good) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return "failing"; }
  Message send(int to, int tag, std::span<const std::byte> bytes) override {
    if (good_-- == 0) throw CommunicationError("[test] the cable is out");
    return inner_->send(to, tag, bytes);
  }
  Message receive(int from, int tag, std::span<std::byte> bytes) override { return inner_->receive(from, tag, bytes); }
  bool finished(Message message) override { return inner_->finished(message); }
  void push() override {}
  void give_up() noexcept override {}

 private:
  std::unique_ptr<Transport> inner_;
  int good_;
};

// The other rank is told what it misses: the call, or the data of one that was begun.
TEST(Transport, ThatFailsBreaksTheWorld) {
  for (const int good : {0, 1, 2}) {
    const LocalWorld local(2);
    World other([&] { return local.transport(1); }, {.limit_seconds = 1});
    World world([&] { return std::make_unique<Failing>(local.transport(0), good); });
    std::vector<float> mine(100), theirs(100);
    const Ticket ticket = world.all().all_reduce(mine.data(), DType::f32, {100});
    const Ticket answer = other.all().all_reduce(theirs.data(), DType::f32, {100});
    tests::expect_error<CommunicationError>([&] { ticket.wait(); }, {"the cable is out"});
    tests::expect_error<CommunicationError>([&] { world.all().barrier().wait(); },
                                            {"[barrier] call 1 of all ranks: the world is broken", "the cable is out"});
    tests::expect_error<CommunicationTimeout>(
        [&] { answer.wait(); }, {good == 0 ? "rank 0 has not made this call" : "data of rank 0 has not come"});
  }
}

TEST(Transport, ThatCannotBeOpened) {
  tests::expect_error<TransportUnavailable>(
      [] { World world([]() -> std::unique_ptr<Transport> { throw TransportUnavailable("[test] nothing there"); }); },
      {"nothing there"});
}

TEST(World, RefusesOptionsWithoutSense) {
  const LocalWorld local(1);
  const auto made = [&](const WorldOptions& options) {
    return [&local, options] { World world([&] { return local.transport(0); }, options); };
  };
  tests::expect_error<ValueError>(made({.limit_seconds = 0}), {"[world] the limit is 0 s; it must be above 0"});
  tests::expect_error<ValueError>(made({.piece_bytes = 0}), {"[world] pieces of 0 bytes"});
  tests::expect_error<ValueError>(made({.far_piece_bytes = 0}), {"[world] pieces of 0 bytes"});
  tests::expect_error<ValueError>([] { LocalWorld none(0); }, {"at least one rank, not 0"});
  tests::expect_error<ValueError>([&] { local.transport(1); }, {"rank 1 is not below 1"});
}

TEST(Group, RefusesOtherSizesThanOneForEachRank) {
  World world;
  float values[4] = {};
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{}, {2, 2}, {-1}}) {
    tests::expect_error<ValueError>([&] { (void)world.all().reduce_scatter(values, DType::f32, sizes); },
                                    {"[reduce_scatter] parts of sizes [", "] for 1 ranks; each rank has one"});
    tests::expect_error<ValueError>([&] { (void)world.all().all_gather(values, DType::f32, sizes); },
                                    {"[all_gather] parts of sizes ["});
  }
}

TEST(Group, RefusesWhatItCannotDo) {
  World world;
  Group all = world.all();
  float value = 0;
  tests::expect_error<ValueError>([&] { all.broadcast(&value, DType::f32, {}, 1).wait(); },
                                  {"[broadcast] 1 is no place of all ranks, which has 1 ranks"});
  tests::expect_error<ValueError>([&] { all.send(&value, DType::f32, {}, -1).wait(); }, {"[send] -1 is no place"});
  tests::expect_error<ValueError>([&] { all.send(&value, DType::f32, {}, 0).wait(); }, {"sends to itself"});
  tests::expect_error<ValueError>([&] { all.receive(&value, DType::f32, {}, 0).wait(); }, {"receives from itself"});
  for (const DType dtype : {DType::u8, DType::i8, DType::boolean})
    tests::expect_error<DTypeError>([&] { all.all_reduce(&value, dtype, {}).wait(); },
                                    {"[all_reduce] there is no sum of"});
  tests::expect_error<ValueError>([&] { world.group("a", {{0}, {0}}); }, {"[group] a: rank 0 stands in 2 parts"});
  tests::expect_error<ValueError>([&] { world.group("a", {{0, 1}}); }, {"there is no rank 1 in a world of 1"});
  tests::expect_error<ValueError>(
      [&] {
        world.group(Mesh({{"dp", 2}}, 2), {"dp"});
      },
      {"[mesh] dp=2 needs 2 ranks; the world has 1"});
}

}  // namespace
}  // namespace heddle::distributed
