// Gradients of every example of a batch by themselves, as differential privacy or influence functions need them: one
// vmapped call beside a loop.
#include <heddle/heddle.h>

#include <algorithm>
#include <chrono>
#include <iostream>

using namespace heddle;

namespace {

template <class F>
double median_milliseconds(int repetitions, const F& f) {
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + repetitions / 2, times.end());
  return times[static_cast<size_t>(repetitions / 2)];
}

void finish(const std::vector<Tensor>& gradients) {
  eval(gradients);
  gradients[0].device().synchronize();
}

template <class One, class All>
void compare(const char* how, const std::vector<Tensor>& parameters, const One& one, const All& all,
             const std::vector<Tensor>& image, const std::vector<Tensor>& label, const Tensor& images,
             const Tensor& labels) {
  std::vector<std::vector<Tensor>> each(image.size());
  const auto loop = [&] {
    for (size_t i = 0; i < each.size(); ++i) {
      each[i] = one(parameters, image[i], label[i]);
      eval(each[i]);
    }
    finish(each.back());
  };
  std::vector<Tensor> mapped;
  const auto at_once = [&] {
    mapped = all(parameters, images, labels);
    finish(mapped);
  };
  for (int warm = 0; warm < 3; ++warm) {
    loop();
    at_once();
  }
  double worst = 0;
  for (size_t k = 0; k < mapped.size(); ++k) {
    const std::vector<float> together = mapped[k].to_vector<float>();
    for (size_t i = 0; i < each.size(); ++i) {
      const std::vector<float> alone = each[i][k].to_vector<float>();
      for (size_t j = 0; j < alone.size(); ++j)
        worst = std::max(worst, static_cast<double>(std::abs(alone[j] - together[i * alone.size() + j])));
    }
  }
  std::vector<double> loops, maps, ratios;
  for (int turn = 0; turn < 9; ++turn) {
    loops.push_back(median_milliseconds(3, loop));
    maps.push_back(median_milliseconds(3, at_once));
    ratios.push_back(loops.back() / maps.back());
  }
  for (std::vector<double>* times : {&loops, &maps, &ratios}) std::sort(times->begin(), times->end());
  std::cout << how << ": loop " << loops[4] << " ms, vmap " << maps[4] << " ms, ratio " << ratios[4] << " ("
            << ratios[2] << " to " << ratios[6] << "); largest difference " << worst << '\n';
}

}  // namespace

int main() {
  manual_seed(1);
  nn::Sequential model{nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 64), nn::ReLU(), nn::Linear(64, 10)};
  const std::vector<Tensor> parameters = nn::detached(model.parameters());
  const auto loss = [&](const std::vector<Tensor>& p, const Tensor& x, const Tensor& y) {
    return cross_entropy(nn::functional_call(model, p, unsqueeze(x, 0)), unsqueeze(y, 0));
  };
  const int64_t count = 128;
  const data::Split digits = data::stroke_digits();
  data::Batcher batches(digits.train, {.batch = count, .seed = 1});
  data::Batch batch;
  batches.next(batch);
  const Tensor images = Tensor::from_vector(batch.images, {count, 784}),
               labels = Tensor::from_vector(batch.labels, {count});
  std::vector<Tensor> image, label;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    image.push_back(Tensor::from_host(std::span<const float>(batch.images).subspan(784 * i, 784), Shape{784}));
    label.push_back(Tensor::from_vector(std::vector{batch.labels[i]}, Shape{}));
  }

  // Written as it reads, and compiled. The gradients of all examples are kept, by the loop as by the mapped call.
  const auto one = grad(loss);
  const auto all = vmap(grad(loss), {std::nullopt, 0, 0});
  compare("recorded at every call", parameters, one, all, image, label, images, labels);
  compare("compiled", parameters, compile(one), compile(all), image, label, images, labels);
  // The norm of each example's gradient, which clipping for privacy asks for: mapped, no gradient is stored.
  const auto norm = [&](const std::vector<Tensor>& p, const Tensor& x, const Tensor& y) {
    Tensor total;
    for (const Tensor& g : grad(loss)(p, x, y)) total = total.defined() ? total + sum(square(g)) : sum(square(g));
    return std::vector<Tensor>{sqrt(total)};
  };
  compare("norms, compiled", parameters, compile(norm), compile(vmap(norm, {std::nullopt, 0, 0})), image, label, images,
          labels);
}
