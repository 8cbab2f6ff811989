// A rank of a world that mpirun made, for mpi_test.cpp: `heddle_mpi_ranks collectives|program|mismatch|silent|twice`,
// for tools/disagree_check.sh: `heddle_mpi_ranks shape|dtype|order|skipped|uneven|loop|stopped LIMIT_S`, and for
// tools/calls_check.sh: `heddle_mpi_ranks calls LIMIT_S ELEMENTS [ROUNDS [AT_ONCE [PIECE_BYTES]]]` and
// `heddle_mpi_ranks psum LIMIT_S ELEMENTS ROUNDS DEVICE`. Rank 0 prints a line that begins with "ok", others theirs
// behind their number; 3 is the exit code after a failure.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "heddle/autograd/transforms.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/median.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/distributed/collectives.h"
#include "heddle/distributed/errors.h"
#include "heddle/distributed/open_world.h"
#include "heddle/distributed/shard_map.h"

namespace {

using namespace heddle;
using namespace heddle::distributed;

constexpr size_t count = 300'001;  // several pieces, and parts that differ in size

float number(int rank, size_t i) { return std::sin(static_cast<float>(i) * 0.7f + static_cast<float>(rank)); }

std::vector<float> sum_in_order(int ranks) {
  std::vector<float> sum(count);
  for (size_t i = 0; i < count; ++i) {
    sum[i] = ranks == 4 ? (number(0, i) + number(1, i)) + (number(2, i) + number(3, i)) : number(0, i) + number(1, i);
  }
  return sum;
}

void expect(bool holds, const char* what) {
  if (!holds) throw Error(std::string("[ranks] wrong: ") + what);
}

void collectives(World& world) {
  Group all = world.all();
  const int ranks = world.size(), me = world.rank();
  std::vector<float> mine(count);
  for (size_t i = 0; i < count; ++i) mine[i] = number(me, i);
  std::vector<float> gathered(count * static_cast<size_t>(ranks)), turned(gathered.size()), scattered(count);
  all.all_gather(mine.data(), gathered.data(), DType::f32, {count}).wait();
  for (int rank = 0; rank < ranks; ++rank)
    expect(gathered[static_cast<size_t>(rank) * count + 17] == number(rank, 17), "all_gather");
  std::vector<float> summed = mine;
  all.all_reduce(summed.data(), DType::f32, {count}).wait();
  expect(summed == sum_in_order(ranks), "all_reduce");
  all.reduce_scatter(gathered.data(), scattered.data(), DType::f32, {count}).wait();
  expect(scattered[5] == number(me, 5) * static_cast<float>(ranks), "reduce_scatter");
  all.all_to_all(gathered.data(), turned.data(), DType::f32, {count}).wait();
  expect(turned[count + 9] == number(me, 9), "all_to_all");
  std::vector<float> root = mine;
  all.broadcast(root.data(), DType::f32, {count}, ranks - 1).wait();
  expect(root[count - 1] == number(ranks - 1, count - 1), "broadcast");
  const distributed::Ticket received = all.receive(root.data(), DType::f32, {count}, (me + 1) % ranks);
  all.send(mine.data(), DType::f32, {count}, (me + ranks - 1) % ranks).wait();
  received.wait();
  expect(root[3] == number((me + 1) % ranks, 3), "send");
  const Mesh mesh({{"dp", 2}, {"tp", ranks / 2}}, ranks);
  int32_t number_of_group = me;
  world.group(mesh, {"dp"}).all_reduce(&number_of_group, DType::i32, {}).wait();
  expect(number_of_group == 2 * (me % (ranks / 2)) + ranks / 2, "all_reduce of dp");
  all.barrier().wait();
  if (me == 0)
    std::printf("ok %d ranks over %s %s\n", ranks, world.transport().c_str(),
                hex64(hash_bytes(summed.data(), count * sizeof(float))).c_str());
}

// A loss and its gradient, by parts of the rows and of the inner axis, against those of the whole.
void program(World& world) {
  const int ranks = world.size();
  const Mesh mesh({{"dp", 2}, {"tp", ranks / 2}}, ranks);
  DeviceContext& reference = device("reference:0");
  const auto numbers = [&](const Shape& shape, int seed) {
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = number(seed, i);
    return Tensor::from_vector(values, shape, &reference);
  };
  const Tensor x = numbers({4, 6}, 1), w = numbers({6, 3}, 2);
  const auto in_parts = [](const std::vector<Tensor>& in) {
    const auto loss = [&](const Tensor& t) { return pmean(mean(square(psum(matmul(in[0], t), "tp"))), "dp"); };
    return std::vector{loss(in[1]), all_gather(grad(loss)(in[1]), "tp")};
  };
  const auto whole = [&](const Tensor& t) { return mean(square(matmul(x, t))); };
  const Spec of_x{{"dp", "tp"}}, of_w{{"tp"}};
  const std::vector<Tensor> got = shard_map(in_parts, world, mesh, {of_x, of_w}, {Spec{}, of_w})(
      {Sharding(mesh, of_x).shard(x, world.rank()), Sharding(mesh, of_w).shard(w, world.rank())});
  expect(std::abs(got[0].item() - whole(w).item()) < 1e-12, "loss");
  expect(max(abs(got[1] - grad(whole)(w))).item() < 1e-12, "gradient");
  if (world.rank() == 0) std::printf("ok %.17g\n", got[0].item());
}

struct Sums {
  int64_t elements = 1;
  int rounds = 3000, at_once = 1;
  size_t piece_bytes = 0;  // 0: as training
  std::string device;
};

// What so many sums over ranks, called one behind the other and under way together, take; median in us.
void calls(World& world, const Sums& sums) {
  std::vector<std::vector<float>> values(static_cast<size_t>(sums.at_once));
  for (std::vector<float>& each : values) each.resize(static_cast<size_t>(sums.elements));
  std::vector<double> took;
  for (int round = 0; round < sums.rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<distributed::Ticket> tickets;
    for (std::vector<float>& each : values)
      tickets.push_back(world.all().all_reduce(each.data(), DType::f32, {sums.elements}));
    for (const distributed::Ticket& ticket : tickets) ticket.wait();
    took.push_back(1e6 * seconds_since(start));
  }
  if (world.rank() == 0) std::printf("ok %.2f us\n", median(took));
}

// The same of psum() of a device's values, which gives values of the device.
void psums(World& world, const Sums& sums) {
  DeviceContext& on = device(sums.device);
  const Mesh mesh({{"dp", world.size()}}, world.size());
  const auto f = shard_map([](const std::vector<Tensor>& in) { return std::vector{psum(in[0], "dp")}; }, world, mesh,
                           {Spec{{"dp"}}}, {Spec{}});
  const Tensor x = full({sums.elements}, world.rank() + 0.5, DType::f32, &on);
  eval({x});
  std::vector<double> took;
  for (int round = 0; round < sums.rounds; ++round) {
    on.synchronize();
    const auto start = std::chrono::steady_clock::now();
    const Tensor sum = f({x})[0];
    eval({sum});
    on.synchronize();
    took.push_back(1e6 * seconds_since(start));
    if (round == 0) {
      const int ranks = world.size();
      expect(min(sum).item() == 0.5 * ranks * ranks && max(sum).item() == 0.5 * ranks * ranks, "psum");
    }
  }
  if (world.rank() == 0) std::printf("ok %.2f us\n", median(took));
}

void mismatch(World& world) {
  float values[8] = {};
  const int64_t elements = world.rank() == 1 ? 8 : 4;
  world.all().all_reduce(values, DType::f32, {elements}).wait();
}

void silent(World& world) {
  if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(20));
  world.all().barrier().wait();
}

// Rank 1 calls otherwise, or not at all, in the second round of calls.
void disagree(World& world, const std::string& what) {
  float values[16] = {};
  double wide[4] = {};
  Group all = world.all();
  const auto sum = [&] { all.all_reduce(values, DType::f32, {4}).wait(); };
  const auto gather = [&] { all.all_gather(values, values + 4, DType::f32, {4}).wait(); };
  sum();
  const bool wrong = world.rank() == 1;
  if (what == "shape") all.all_reduce(values, DType::f32, {wrong ? 8 : 4}).wait();
  if (what == "dtype") wrong ? all.all_reduce(wide, DType::f64, {4}).wait() : sum();
  if (what == "order") wrong ? (sum(), gather()) : (gather(), sum());
  if (what == "skipped") wrong ? sum() : (gather(), sum());
  if (what == "uneven") {  // its data is over, it waits for its end, which the others do not come to
    if (!wrong) sum();
    std::this_thread::sleep_for(std::chrono::seconds(30));
  }
  if (what == "loop") {
    std::atomic<bool> over = false;
    while (wrong && !over) {
    }
    sum();
  }
  if (what == "stopped") {
    if (wrong) (void)std::raise(SIGSTOP);
    sum();
  }
}

const std::vector<std::string> disagreements = {"shape", "dtype", "order", "skipped", "uneven", "loop", "stopped"};

int run(const std::string& what, double limit, const Sums& sums) {
  const bool disagrees = std::ranges::find(disagreements, what) != disagreements.end(), hangs = what == "silent";
  WorldOptions options{.limit_seconds = hangs ? 1.0 : limit};
  if (sums.piece_bytes != 0) options.piece_bytes = options.far_piece_bytes = sums.piece_bytes;
  std::unique_ptr<World> world = open_world(options);
  if (what == "collectives") collectives(*world);
  if (what == "program") program(*world);
  if (what == "calls") calls(*world, sums);
  if (what == "psum") psums(*world, sums);
  if (what == "mismatch") mismatch(*world);
  if (hangs) silent(*world);
  if (disagrees) disagree(*world, what);
  if (what == "twice") {
    world.reset();
    world = open_world();
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto number = [&](int place, int64_t otherwise) {
      return argc > place ? std::stoll(argv[place]) : otherwise;
    };
    Sums sums;
    sums.elements = number(3, sums.elements);
    sums.rounds = static_cast<int>(number(4, sums.rounds));
    if (argc > 5 && std::string(argv[1]) == "psum") {
      sums.device = argv[5];
    } else {
      sums.at_once = static_cast<int>(number(5, sums.at_once));
      sums.piece_bytes = static_cast<size_t>(number(6, 0));
    }
    return run(argc > 1 ? argv[1] : "", argc > 2 ? std::stod(argv[2]) : 60, sums);
  } catch (const CommunicationError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    std::fflush(stderr);
    std::this_thread::sleep_for(std::chrono::seconds(1));  // the first that ends takes the others along
    return 3;
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 2;
  }
}
