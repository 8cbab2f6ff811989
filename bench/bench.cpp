#include "bench/bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "bench/measure.h"
#include "core/base/error.h"
#include "core/graph/functions.h"
#include "core/graph/philox.h"

namespace heddle::bench {

std::unique_ptr<Peer> make_onednn();
std::unique_ptr<Peer> make_openblas();

namespace {

struct PeerRow {
  std::string_view name;
  std::unique_ptr<Peer> (*make)();
};
const std::vector<PeerRow>& peer_table() {
  static const std::vector<PeerRow> table = {
#ifdef HEDDLE_PEER_ONEDNN
      {"onednn", make_onednn},
#endif
#ifdef HEDDLE_PEER_OPENBLAS
      {"openblas", make_openblas},
#endif
  };
  return table;
}

std::vector<float> random_floats(int64_t count, uint32_t stream) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i) values[i] = philox_uniform({1, 2, stream, 4}, i) - 0.5f;
  return values;
}

// "1024x512x64" -> {1024, 512, 64}.
std::vector<int64_t> parse_sizes(const std::string& text, size_t count, const char* form) {
  const auto fail = [&] { throw ValueError(fmt::format("[bench] case '{}' is not of the form {}", text, form)); };
  std::vector<int64_t> sizes;
  const char* at = text.data();
  const char* const end = text.data() + text.size();
  while (at != end) {
    int64_t value = 0;
    const auto [next, code] = std::from_chars(at, end, value);
    if (code != std::errc{} || value < 1 || value > 1 << 30) fail();
    sizes.push_back(value);
    if (next != end && (*next != 'x' || next + 1 == end)) fail();
    at = next == end ? end : next + 1;
  }
  if (sizes.size() != count) fail();
  return sizes;
}

// Runs one Heddle expression per call; the result of the last call is kept.
struct HeddleCall {
  DeviceContext& device;
  std::function<Tensor()> expression;
  Tensor result;

  Side side() {
    return {[this] {
              result = expression();
              eval({result});
            },
            [this] { device.synchronize(); }};
  }
};

void check_equal(const std::string& name, const std::vector<float>& ours, const std::vector<float>& theirs,
                 int64_t depth) {
  const double tolerance = 1e-5 * std::sqrt(static_cast<double>(depth)) + 1e-5;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (!(std::abs(ours[i] - theirs[i]) <= tolerance)) {
      throw DeviceError(
          fmt::format("[bench] matmul {}: element {} is {}, the peer has {}", name, i, ours[i], theirs[i]));
    }
  }
}

void matmul_case(const std::string& name, const std::vector<std::unique_ptr<Peer>>& peers, int repetitions,
                 DeviceContext& device, const Report& report) {
  const std::vector<int64_t> size = parse_sizes(name, 3, "MxNxK");
  const int64_t m = size[0], n = size[1], k = size[2];
  const std::vector<float> a = random_floats(m * k, 1), b = random_floats(k * n, 2);
  const Tensor ta = Tensor::from_vector(a, {m, k}, &device), tb = Tensor::from_vector(b, {k, n}, &device);
  HeddleCall heddle_call{device, [&] { return matmul(ta, tb); }, {}};
  std::vector<Side> sides = {heddle_call.side()};
  std::vector<std::vector<float>> results(peers.size(), std::vector<float>(static_cast<size_t>(m * n)));
  for (size_t p = 0; p < peers.size(); ++p) {
    sides.push_back({[&, p] { peers[p]->matmul(m, n, k, a.data(), b.data(), results[p].data()); }, [] {}});
  }
  const auto seconds = measure(sides, repetitions);
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  Row row{"matmul", name, "f32", device.id(), median(seconds[0]), flops / median(seconds[0]) * 1e-9, "GFLOP/s",
          "",       0,    0};
  if (peers.empty()) report(row);
  const std::vector<float> ours = peers.empty() ? std::vector<float>{} : heddle_call.result.to_vector<float>();
  for (size_t p = 0; p < peers.size(); ++p) {
    check_equal(name, ours, results[p], k);
    std::vector<double> ratios;
    for (size_t r = 0; r < seconds[0].size(); ++r) ratios.push_back(seconds[p + 1][r] / seconds[0][r]);
    row.peer = peers[p]->name();
    row.peer_value = flops / median(seconds[p + 1]) * 1e-9;
    row.ratio = median(ratios);
    report(row);
  }
}

void bench_matmul(const Options& options, DeviceContext& device, const Report& report) {
  std::vector<std::unique_ptr<Peer>> peers;
  for (const std::string& name : options.peers) peers.push_back(make_peer(name));
  const std::vector<std::string> standard = {"256x256x256",    "512x512x512", "768x768x768",
                                             "1024x1024x1024", "768x384x128", "32x128x784"};
  const std::vector<std::string>& cases = options.cases.empty() ? standard : options.cases;
  for (const std::string& name : cases) parse_sizes(name, 3, "MxNxK");
  for (const std::string& name : cases) matmul_case(name, peers, options.repetitions, device, report);
}

// y = 2a + b over N elements: three times N * 4 bytes moved.
void bench_elementwise(const Options& options, DeviceContext& device, const Report& report) {
  if (!options.peers.empty()) throw ValueError("[bench] elementwise has no peers");
  const std::vector<std::string> standard = {"16777216"};
  for (const std::string& name : options.cases.empty() ? standard : options.cases) {
    const int64_t n = parse_sizes(name, 1, "N")[0];
    const Tensor a = Tensor::from_vector(random_floats(n, 1), {n}, &device),
                 b = Tensor::from_vector(random_floats(n, 2), {n}, &device);
    HeddleCall call{device, [&] { return 2.0 * a + b; }, {}};
    const double seconds = median(measure({call.side()}, options.repetitions)[0]);
    report({"elementwise", name, "f32", device.id(), seconds, 12.0 * static_cast<double>(n) / seconds * 1e-9, "GB/s",
            "", 0, 0});
  }
}

struct BenchRow {
  std::string_view name;
  void (*run)(const Options&, DeviceContext&, const Report&);
};
constexpr std::array<BenchRow, 2> bench_table = {{{"matmul", bench_matmul}, {"elementwise", bench_elementwise}}};

}  // namespace

std::vector<std::string> known_peers() {
  std::vector<std::string> names;
  for (const PeerRow& row : peer_table()) names.emplace_back(row.name);
  return names;
}

std::unique_ptr<Peer> make_peer(std::string_view name) {
  for (const PeerRow& row : peer_table()) {
    if (row.name == name) return row.make();
  }
  throw ValueError(fmt::format("[bench] unknown peer '{}'; this build has: {}", name, fmt::join(known_peers(), ", ")));
}

std::vector<std::string> known_benches() {
  std::vector<std::string> names;
  for (const BenchRow& row : bench_table) names.emplace_back(row.name);
  return names;
}

void run(std::string_view bench, const Options& options, DeviceContext& device, const Report& report) {
  if (options.repetitions < 10)
    throw ValueError(fmt::format("[bench] {} repetitions, expected at least 10", options.repetitions));
  for (const BenchRow& row : bench_table) {
    if (row.name == bench) return row.run(options, device, report);
  }
  throw ValueError(fmt::format("[bench] unknown benchmark '{}'; known: {}", bench, fmt::join(known_benches(), ", ")));
}

}  // namespace heddle::bench
