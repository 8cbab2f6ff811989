// A GRU over 64 steps as one recorded loop (nn::GRU, over scan) beside the same steps written out: time, launches, and
// the first call, which plans and compiles.
#include <heddle/heddle.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

using namespace heddle;

namespace {

constexpr int64_t steps = 64;

Tensor written_out(const Tensor& x, const nn::GRU& gru, int64_t hidden) {
  const auto& w = gru.weights(0);
  const Tensor gates = matmul(x, transpose(w.weight_ih)) + w.bias_ih;
  Tensor h = zeros({x.dim(1), hidden}, DType::f32, &x.device());
  std::vector<Tensor> all;
  for (int64_t t = 0; t < steps; ++t) {
    const Tensor a = squeeze(slice(gates, 0, {t, t + 1}), 0), b = matmul(h, transpose(w.weight_hh)) + w.bias_hh;
    const auto part = [&](const Tensor& of, int64_t gate) {
      return slice(of, 1, {gate * hidden, (gate + 1) * hidden});
    };
    const Tensor r = sigmoid(part(a, 0) + part(b, 0)), z = sigmoid(part(a, 1) + part(b, 1)),
                 n = tanh(part(a, 2) + r * part(b, 2));
    h = n + z * (h - n);
    all.push_back(h);
  }
  return stack(all, 0);
}

struct Figures {
  double first = 0, median = 0;  // ms
  unsigned long long kernels = 0;
};

template <class F>
double milliseconds(DeviceContext& device, const F& f) {
  const auto start = std::chrono::steady_clock::now();
  eval(f());
  device.synchronize();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

void compare(DeviceContext& device, int64_t batch, int64_t in, int64_t hidden) {
  nn::GRU gru(in, hidden, {.device = device});
  const Tensor x = normal({steps, batch, in}, 0, 1, &device);
  eval({x});
  for (const bool gradient : {false, true}) {
    const auto results = [&](bool loop) {
      const Tensor y = loop ? gru(x) : written_out(x, gru, hidden);
      return gradient ? grad(sum(square(y)), gru.parameters()) : std::vector<Tensor>{y};
    };
    Figures figures[2];
    std::vector<double> times[2];
    for (const int k : {0, 1}) figures[k].first = milliseconds(device, [&] { return results(k == 0); });
    for (const int k : {0, 1}) {
      const uint64_t before = device.counters().kernels;
      milliseconds(device, [&] { return results(k == 0); });
      figures[k].kernels = device.counters().kernels - before;
    }
    for (int round = 0; round < 15; ++round) {
      for (const int k : {0, 1}) times[k].push_back(milliseconds(device, [&] { return results(k == 0); }));
    }
    for (const int k : {0, 1}) {
      std::nth_element(times[k].begin(), times[k].begin() + 7, times[k].end());
      figures[k].median = times[k][7];
    }
    std::printf(
        "batch %d, %d -> %d, %s: loop %.2f ms, %llu kernels, first call %.0f ms; written out %.2f ms, %llu kernels, "
        "first call %.0f ms; ratio %.2f\n",
        static_cast<int>(batch), static_cast<int>(in), static_cast<int>(hidden), gradient ? "gradient" : "forward",
        figures[0].median, figures[0].kernels, figures[0].first, figures[1].median, figures[1].kernels,
        figures[1].first, figures[1].median / figures[0].median);
  }
}

}  // namespace

int main() {
  DeviceContext& device = default_device();
  std::printf("%s, %d steps, medians of 15 turns\n", device.id().c_str(), static_cast<int>(steps));
  compare(device, 1, 64, 128);
  compare(device, 32, 64, 128);
  compare(device, 32, 256, 256);
}
