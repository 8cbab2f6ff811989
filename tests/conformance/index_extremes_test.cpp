// Every function that takes indices, class numbers, lengths or offsets from a tensor, at the ends of i64, against loops
// over plain numbers: what docs/numbers.md promises under "Indices".
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/math/statistics.h"
#include "heddle/core/functions/nn/bags.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/functions/shape/scatter.h"
#include "heddle/nn/metrics.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

using Values = std::vector<double>;
using Indices = std::vector<int64_t>;

constexpr int64_t rows = 7, low = std::numeric_limits<int64_t>::min(), high = std::numeric_limits<int64_t>::max(),
                  p31 = int64_t{1} << 31, p32 = int64_t{1} << 32;
// At most 16, as few picks are compared with every row.
const Indices wide = {1,        low,      high, p31,  -p31,  p31 - 1,   p32, p32 + 3,
                      -p32 + 3, -p32 - 1, -1,   rows, -rows, -rows - 1, 0,   2 * p32 + 1};
const Indices narrow_ones = {1, -p31, p31 - 1, -1, rows, -rows, -rows - 1, 0, 1 << 30, -(1 << 30), 3, 1};

// So many that rows are found in order.
Indices many() {
  Indices all;
  for (int64_t i = 0; i < 13; ++i) all.insert(all.end(), wide.begin(), wide.end());
  return all;
}

// The element that a read gives: negative ones count from the end once, then the nearest.
int64_t read(int64_t i, int64_t size = rows) {
  if (i < 0 && i >= -size) i += size;
  return i < 0 ? 0 : i >= size ? size - 1 : i;
}
// The row that a write goes to, or none.
std::optional<int64_t> written(int64_t i, bool from_end, int64_t size = rows) {
  if (from_end && i < 0 && i >= -size) i += size;
  if (i < 0 || i >= size) return std::nullopt;
  return i;
}

double old_at(int64_t r) { return static_cast<double>(10 + r); }
double new_at(int64_t j) { return static_cast<double>(1 + j % 3); }

// Each row of x with its picks in their order.
Values combined(const Indices& indices, bool from_end,
                const std::function<double(double old, const Values& picks)>& f) {
  std::vector<Values> picks(rows);
  for (size_t j = 0; j < indices.size(); ++j) {
    if (const auto row = written(indices[j], from_end))
      picks[static_cast<size_t>(*row)].push_back(new_at(static_cast<int64_t>(j)));
  }
  Values all;
  for (int64_t r = 0; r < rows; ++r) {
    const Values& of_row = picks[static_cast<size_t>(r)];
    all.push_back(of_row.empty() ? old_at(r) : f(old_at(r), of_row));
  }
  return all;
}
double last(double, const Values& picks) { return picks.back(); }
double total(double old, const Values& picks) {
  for (const double p : picks) old += p;
  return old;
}
double product(double old, const Values& picks) {
  for (const double p : picks) old *= p;
  return old;
}
double average(double old, const Values& picks) { return total(old, picks) / static_cast<double>(1 + picks.size()); }
double largest(double old, const Values& picks) { return std::max(old, *std::max_element(picks.begin(), picks.end())); }
double smallest(double old, const Values& picks) {
  return std::min(old, *std::min_element(picks.begin(), picks.end()));
}
double set_to_five(double, const Values&) { return 5; }

Values reads(const Indices& indices) {
  Values all;
  for (const int64_t i : indices) all.push_back(old_at(read(i)));
  return all;
}

class IndexExtremes : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() const { return device(GetParam()); }
  Tensor x() const {
    return stored([](int64_t r) { return old_at(r); }, rows);
  }
  Tensor source(int64_t n) const { return stored(new_at, n); }
  Tensor stored(const std::function<double(int64_t)>& f, int64_t n) const {
    std::vector<float> all;
    for (int64_t i = 0; i < n; ++i) all.push_back(static_cast<float>(f(i)));
    return Tensor::from_vector(all, {n}, &dev());
  }
  // Logits (n, rows), the same numbers in each line.
  Tensor logits(int64_t n) const {
    std::vector<float> all;
    for (int64_t i = 0; i < n * rows; ++i) all.push_back(logit(i % rows));
    return Tensor::from_vector(all, {n, rows}, &dev());
  }
  static float logit(int64_t c) { return static_cast<float>(c * c % 5) * 0.5F; }
  static double loss(int64_t c) {
    double sum = 0;
    for (int64_t k = 0; k < rows; ++k) sum += std::exp(logit(k));
    return std::log(sum) - logit(c);
  }

  Tensor tensor(const Indices& indices, bool narrow) const {
    const Shape shape{static_cast<int64_t>(indices.size())};
    return narrow ? Tensor::from_vector(std::vector<int32_t>(indices.begin(), indices.end()), shape, &dev())
                  : Tensor::from_vector(indices, shape, &dev());
  }

  using Call = std::function<Tensor(const Tensor& indices)>;
  using Oracle = std::function<Values(const Indices&)>;
  // Collected, and computed together by check(): few kernels are then many tests.
  void expect(const std::string& name, const Call& call, const Oracle& oracle, bool many_too = false) {
    const IndexGuardScope off(false);
    const auto add = [&](const Indices& indices, bool narrow) {
      cases_.push_back({name + (narrow                ? " i32"
                                : indices.size() > 16 ? " i64, many"
                                                      : " i64"),
                        call(tensor(indices, narrow)), oracle(indices)});
    };
    add(wide, false);
    add(many_too ? many() : narrow_ones, !many_too);
  }
  void check() {
    std::vector<Tensor> all;
    for (const Case& c : cases_) all.push_back(c.got);
    eval(all);
    for (const Case& c : cases_) {
      const Values got = c.got.to_doubles();
      ASSERT_EQ(got.size(), c.want.size()) << c.name;
      for (size_t i = 0; i < got.size(); ++i)
        EXPECT_NEAR(got[i], c.want[i], 1e-5 * std::max(1.0, std::abs(c.want[i]))) << c.name << ", element " << i;
    }
    EXPECT_FALSE(cases_.empty());
    cases_.clear();
  }
  void expect_write(const std::string& name, bool from_end, const std::function<double(double, const Values&)>& f,
                    const std::function<Tensor(const Tensor&, const Tensor&)>& call) {
    expect(
        name, [&](const Tensor& i) { return call(i, source(i.dim(0))); },
        [&](const Indices& i) { return combined(i, from_end, f); }, true);
  }

 private:
  struct Case {
    std::string name;
    Tensor got;
    Values want;
  };
  std::vector<Case> cases_;
};

TEST_P(IndexExtremes, Reads) {
  const auto column = [](const Tensor& t) { return reshape(t, {t.numel(), 1}); };
  expect(
      "take", [&](const Tensor& i) { return take(x(), i); }, reads);
  expect(
      "gather", [&](const Tensor& i) { return gather(x(), 0, i); }, reads);
  expect(
      "index_select", [&](const Tensor& i) { return index_select(x(), 0, i); }, reads);
  expect(
      "take_along_axis", [&](const Tensor& i) { return take_along_axis(x(), i, 0); }, reads);
  expect(
      "embedding", [&](const Tensor& i) { return embedding(column(x()), i); }, reads);
  for (const BagMode mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    expect(
        "embedding_bag", [&](const Tensor& i) { return embedding_bag(column(i), column(x()), mode); }, reads);
    expect(
        "embedding_bag of offsets",
        [&](const Tensor& i) {
          return embedding_bag(i, arange(0, static_cast<double>(i.dim(0)), 1, DType::i64, &dev()), column(x()), mode);
        },
        reads);
  }
  check();
}

TEST_P(IndexExtremes, WritesThatCountFromTheEnd) {
  expect_write("put_along_axis", true, last,
               [&](const Tensor& i, const Tensor& s) { return put_along_axis(x(), i, s, 0); });
  expect_write("index_copy", true, last, [&](const Tensor& i, const Tensor& s) { return index_copy(x(), 0, i, s); });
  expect_write("index_add", true, total, [&](const Tensor& i, const Tensor& s) { return index_add(x(), 0, i, s); });
  expect_write("index_fill", true, set_to_five,
               [&](const Tensor& i, const Tensor&) { return index_fill(x(), 0, i, 5); });
  expect_write("index_put", true, last,
               [&](const Tensor& i, const Tensor& s) { return index_put(x(), std::vector<Tensor>{i}, s); });
  expect_write("index_put, adding", true, total,
               [&](const Tensor& i, const Tensor& s) { return index_put(x(), std::vector<Tensor>{i}, s, true); });
  expect_write("index_put of two axes", true, last, [&](const Tensor& i, const Tensor& s) {
    return reshape(index_put(reshape(x(), {1, rows}), std::vector<Tensor>{zeros_like(i), i}, s), {rows});
  });
  expect_write("index_reduce prod", true, product,
               [&](const Tensor& i, const Tensor& s) { return index_reduce(x(), 0, i, s, ScatterReduction::prod); });
  expect_write("index_reduce mean", true, average,
               [&](const Tensor& i, const Tensor& s) { return index_reduce(x(), 0, i, s, ScatterReduction::mean); });
  expect_write("index_reduce amax", true, largest,
               [&](const Tensor& i, const Tensor& s) { return index_reduce(x(), 0, i, s, ScatterReduction::amax); });
  expect_write("index_reduce amin", true, smallest,
               [&](const Tensor& i, const Tensor& s) { return index_reduce(x(), 0, i, s, ScatterReduction::amin); });
  check();
}

TEST_P(IndexExtremes, WritesThatDoNot) {
  expect_write("scatter", false, last, [&](const Tensor& i, const Tensor& s) { return scatter(x(), 0, i, s); });
  expect_write("scatter of a number", false, set_to_five,
               [&](const Tensor& i, const Tensor&) { return scatter(x(), 0, i, 5.0); });
  expect_write("scatter_add", false, total,
               [&](const Tensor& i, const Tensor& s) { return scatter_add(x(), 0, i, s); });
  expect_write("index_add of rows", false, total,
               [&](const Tensor& i, const Tensor& s) { return index_add(x(), i, s); });
  expect_write("scatter_reduce sum", false, total,
               [&](const Tensor& i, const Tensor& s) { return scatter_reduce(x(), 0, i, s, ScatterReduction::sum); });
  expect_write("scatter_reduce prod", false, product,
               [&](const Tensor& i, const Tensor& s) { return scatter_reduce(x(), 0, i, s, ScatterReduction::prod); });
  expect_write("scatter_reduce mean", false, average,
               [&](const Tensor& i, const Tensor& s) { return scatter_reduce(x(), 0, i, s, ScatterReduction::mean); });
  expect_write("scatter_reduce amax", false, largest,
               [&](const Tensor& i, const Tensor& s) { return scatter_reduce(x(), 0, i, s, ScatterReduction::amax); });
  expect_write("scatter_reduce amin", false, smallest,
               [&](const Tensor& i, const Tensor& s) { return scatter_reduce(x(), 0, i, s, ScatterReduction::amin); });
  const auto unpooled = [&](const Tensor& i) {
    const Shape line{1, 1, i.dim(0)};
    return max_unpool1d(reshape(source(i.dim(0)), line), reshape(i, line), {1}, {}, {rows});
  };
  expect("max_unpool1d", unpooled, [](const Indices& i) {
    Values all(rows, 0);
    for (size_t j = 0; j < i.size(); ++j) {
      if (const auto row = written(i[j], false)) all[static_cast<size_t>(*row)] = new_at(static_cast<int64_t>(j));
    }
    return all;
  });
  expect(
      "bincount", [&](const Tensor& i) { return bincount(i, rows); },
      [](const Indices& i) {
        Values all(rows, 0);
        for (const int64_t v : i) {
          if (const auto row = written(v, false)) ++all[static_cast<size_t>(*row)];
        }
        return all;
      },
      true);
  check();
}

TEST_P(IndexExtremes, ClassNumbers) {
  const auto losses = [](const Indices& i, std::optional<int64_t> ignored = {}) {
    Values all;
    for (const int64_t v : i) all.push_back(v == ignored ? 0 : loss(read(v)));
    return all;
  };
  const auto plain = [&](const Indices& i) { return losses(i); };
  const auto logp = [&](int64_t n) { return log_softmax(logits(n), 1); };
  expect(
      "cross_entropy", [&](const Tensor& i) { return cross_entropy(logits(i.dim(0)), i, Reduction::none); }, plain);
  expect(
      "nll_loss", [&](const Tensor& i) { return nll_loss(logp(i.dim(0)), i, Reduction::none); }, plain);
  const auto kept = [&](const Indices& i) { return losses(i, -1); };
  const CrossEntropyOptions options{.reduction = Reduction::none, .ignore_index = -1};
  expect(
      "cross_entropy with options", [&](const Tensor& i) { return cross_entropy(logits(i.dim(0)), i, options); }, kept);
  expect(
      "nll_loss with options",
      [&](const Tensor& i) {
        return nll_loss(logp(i.dim(0)), i, NllOptions{.reduction = Reduction::none, .ignore_index = -1});
      },
      kept);
  expect(
      "one_hot", [&](const Tensor& i) { return one_hot(i, rows); },
      [](const Indices& i) {
        Values all;
        for (const int64_t v : i) {
          for (int64_t c = 0; c < rows; ++c) all.push_back(v == c);
        }
        return all;
      });
  expect(
      "multi_margin_loss",
      [&](const Tensor& i) { return multi_margin_loss(logits(i.dim(0)), i, 1, 1, Reduction::none); },
      [](const Indices& i) {
        Values all;
        for (const int64_t v : i) {
          double sum = 0;
          for (int64_t c = 0; c < rows; ++c) sum += v == c ? 0 : std::max(0.0, 1.0 - logit(read(v)) + logit(c));
          all.push_back(sum / rows);
        }
        return all;
      });
  // Of each row: class 2, the one that is tried, and 5, or class 2 alone where it is negative, which ends the list.
  expect(
      "multilabel_margin_loss",
      [&](const Tensor& i) {
        const int64_t n = i.dim(0);
        const auto column = [&](int64_t c) { return full({n, 1}, static_cast<double>(c), i.dtype(), &dev()); };
        return multilabel_margin_loss(
            logits(n),
            concat({column(2), unsqueeze(i, 1), column(5), column(-1), column(0), column(p31 - 1), column(1)}, 1),
            Reduction::none);
      },
      [](const Indices& i) {
        Values all;
        for (const int64_t v : i) {
          const Indices listed = v < 0 ? Indices{2} : Indices{2, v, 5};
          double sum = 0;
          for (const int64_t y : listed) {
            for (int64_t c = 0; c < rows; ++c)
              sum += std::ranges::count(listed, c) > 0 ? 0 : std::max(0.0, 1.0 - logit(read(y)) + logit(c));
          }
          all.push_back(sum / rows);
        }
        return all;
      });
  check();
}

// What is not a plain loop here is computed from class numbers in range instead.
TEST_P(IndexExtremes, ClassNumbersOfComposedLosses) {
  const auto in_range = [](const Indices& i) {
    Indices all;
    for (const int64_t v : i) all.push_back(read(v));
    return all;
  };
  const auto same = [&](const char* name, const Call& call) {
    expect(name, call, [&](const Indices& i) { return call(tensor(in_range(i), false)).to_doubles(); });
  };
  same("adaptive_log_softmax_with_loss", [&](const Tensor& i) {
    const Tensor in = slice(logits(i.dim(0)), 1, {.start = 0, .stop = 3});
    const auto weight = [&](int64_t m, int64_t n) {
      return sin(reshape(arange(0, static_cast<double>(m * n), 1, DType::f32, &dev()), {m, n}));
    };
    const AdaptiveTail tails[] = {{weight(2, 3), weight(2, 2)}, {weight(1, 3), weight(2, 1)}};  // 3 + 2 + 2 classes
    return adaptive_log_softmax_with_loss(in, i, weight(5, 3), tails).output;
  });
  same("ctc_loss", [&](const Tensor& i) {
    const int64_t n = i.dim(0);
    const Tensor logp =
        log_softmax(reshape(sin(arange(0, static_cast<double>(3 * n * rows), 1, DType::f32, &dev())), {3, n, rows}), 2);
    return ctc_loss(logp, reshape(i, {n, 1}), full({n}, 3, DType::i64, &dev()), full({n}, 1, DType::i64, &dev()),
                    {.reduction = Reduction::none});
  });
  check();
}

// Lengths and offsets go to the nearest of 0 and what there is.
TEST_P(IndexExtremes, LengthsAndOffsets) {
  const auto clipped = [](const Indices& i, int64_t most) {
    Indices all;
    for (const int64_t v : i) all.push_back(std::clamp<int64_t>(v, 0, most));
    return all;
  };
  const auto same = [&](const char* name, int64_t most, const Call& call) {
    expect(name, call, [&](const Indices& i) { return call(tensor(clipped(i, most), false)).to_doubles(); });
  };
  const auto logp = [&](int64_t n) {
    return log_softmax(reshape(sin(arange(0, static_cast<double>(4 * n * 5), 1, DType::f32, &dev())), {4, n, 5}), 2);
  };
  const auto labels = [&](int64_t n) {
    return remainder(reshape(arange(0, static_cast<double>(2 * n), 1, DType::i64, &dev()), {n, 2}), 4.0) + 1;
  };
  same("ctc_loss, time", 4, [&](const Tensor& i) {
    return ctc_loss(logp(i.dim(0)), labels(i.dim(0)), i, full(i.shape(), 2, DType::i64, &dev()),
                    {.reduction = Reduction::none, .zero_infinity = true});
  });
  same("ctc_loss, labels", 2, [&](const Tensor& i) {
    return ctc_loss(logp(i.dim(0)), labels(i.dim(0)), full(i.shape(), 4, DType::i64, &dev()), i,
                    {.reduction = Reduction::none});
  });
  same("attention", 3, [&](const Tensor& i) {
    const int64_t n = i.dim(0);
    const auto wave = [&](int64_t t) {
      return reshape(sin(arange(0, static_cast<double>(n * t * 4), 1, DType::f32, &dev())), {n, 1, t, 4});
    };
    return scaled_dot_product_attention(wave(2), wave(3), wave(3), {.key_lengths = i});
  });
  // Offsets ascend, so each is tried as the last one.
  for (const int64_t e : {rows, p31, p32 + 1, high}) {
    const IndexGuardScope off(false);
    const Tensor bags =
        embedding_bag(tensor({0, 1, 2, 3, 4}, false), tensor({0, 2, e}, false), reshape(x(), {rows, 1}), BagMode::sum);
    EXPECT_EQ(bags.to_doubles(), (Values{10 + 11, 12 + 13 + 14, 0})) << e;
  }
  check();
}

TEST_P(IndexExtremes, CountsOfMetrics) {
  nn::ConfusionMatrix counts(rows, dev());
  counts.add(tensor(Indices(wide.size(), 3), false), tensor(wide, false));
  nn::TopK top(2, dev());
  top.add(logits(static_cast<int64_t>(wide.size())), tensor(wide, false));  // the largest of 0 1 4 4 1 0 1: 2 and 3
  for (int64_t r = 0; r < rows; ++r) EXPECT_EQ(counts.counts()[static_cast<size_t>(r)][3], r <= 1 ? 1 : 0) << r;
  EXPECT_EQ(top.value(), 0);
}

TEST_P(IndexExtremes, PlacesInOrder) {
  const Indices ordered = {low, -p32, -1, 0, p31, p32 + 3, high};
  expect(
      "searchsorted", [&](const Tensor& i) { return searchsorted(tensor(ordered, false), cast(i, DType::i64)); },
      [&](const Indices& i) {
        Values all;
        for (const int64_t v : i)
          all.push_back(static_cast<double>(std::lower_bound(ordered.begin(), ordered.end(), v) - ordered.begin()));
        return all;
      });
  check();
}

INSTANTIATE_TEST_SUITE_P(Devices, IndexExtremes, ::testing::ValuesIn(test::value_devices()));

}  // namespace
}  // namespace heddle
