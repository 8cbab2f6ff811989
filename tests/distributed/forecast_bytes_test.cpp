// Bytes that forecasts name are those that worlds of threads send.
#include <gtest/gtest.h>

#include <vector>

#include "heddle/core/base/shape.h"
#include "heddle/distributed/forecast/links.h"
#include "tests/distributed/rank_threads.h"

namespace heddle::distributed {
namespace {

// By rank, of one call.
std::vector<uint64_t> sent_by(Move move, int64_t elements, int ranks) {
  std::vector<uint64_t> sent(static_cast<size_t>(ranks));
  const auto errors = test::run_ranks(ranks, [&](World& world) {
    const int64_t count = elements * ranks;
    std::vector<float> whole(static_cast<size_t>(count), 1), part(static_cast<size_t>(elements));
    Group all = world.all();
    const uint64_t before = world.bytes_sent();
    if (move == Move::all_reduce) all.all_reduce(part.data(), DType::f32, Shape{elements}).wait();
    if (move == Move::reduce_scatter) all.reduce_scatter(whole.data(), part.data(), DType::f32, Shape{elements}).wait();
    if (move == Move::all_gather) all.all_gather(part.data(), whole.data(), DType::f32, Shape{elements}).wait();
    if (move == Move::send && world.rank() == 0) all.send(part.data(), DType::f32, Shape{elements}, 1).wait();
    if (move == Move::send && world.rank() == 1) all.receive(part.data(), DType::f32, Shape{elements}, 0).wait();
    sent[static_cast<size_t>(world.rank())] = world.bytes_sent() - before;
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return sent;
}

TEST(ForecastBytes, AreThoseOfTheSchedules) {
  for (const int ranks : {2, 3, 4}) {
    for (const int64_t elements : {0, 1, 7, 1000003}) {
      for (const Move move : {Move::all_reduce, Move::reduce_scatter, Move::all_gather}) {
        const std::vector<uint64_t> sent = sent_by(move, elements, ranks);
        // Those with parts of equal size take one part as their shape; the whole has as many as ranks.
        const auto all = static_cast<uint64_t>(move == Move::all_reduce ? elements : elements * ranks);
        for (int rank = 0; rank < ranks; ++rank)
          EXPECT_EQ(exact_bytes_of(move, all, 4, ranks, rank), sent[static_cast<size_t>(rank)])
              << static_cast<int>(move) << " of " << elements << " on " << rank << " of " << ranks;
      }
    }
  }
  EXPECT_EQ(exact_bytes_of(Move::send, 1000, 4, 2, 0), sent_by(Move::send, 1000, 2)[0]);
  EXPECT_EQ(exact_bytes_of(Move::all_reduce, 1000, 4, 1, 0), 0u);
}

}  // namespace
}  // namespace heddle::distributed
