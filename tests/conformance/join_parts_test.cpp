// Sums over parts of a tensor: what they are joined into has their value, whatever the parts compute, and large ones
// stay as they are.
#include "heddle/core/simplify/join_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <span>

#include "heddle/core/graph/pending.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/simplify/passes.h"
#include "heddle/core/simplify/simplifier.h"
#include "heddle/heddle.h"
#include "heddle/nn/nn.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

using Values = std::vector<double>;
// What is computed of a part of x (12, 6, 4), and of the part's number of the indices (12); w is (4, 5).
using OfPart = std::function<Tensor(const Tensor& x, const Tensor& indices, const Tensor& w)>;

struct PartCase {
  const char* name;
  bool joins;
  OfPart f;
  bool everywhere = false;  // with parts that lie in any way; the others take rows
};

Tensor transposed(const Tensor& x) { return permute(x, {1, 0}); }
Tensor matrix(const Tensor& x) { return reshape(x, {-1, 4}); }

// The result of each is a sum over examples or has the same shape for all parts.
const PartCase part_cases[] = {
    {"product of rows", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) { return sum(relu(matmul(matrix(x), w) + 0.1), {0}); }},
    {"weight gradient", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) {
       return matmul(transposed(matrix(x)), tanh(matmul(matrix(x), w)));
     },
     true},
    {"product without a transpose", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) {
       return matmul(slice(transposed(matmul(matrix(x), w)), 1, {.stop = 3}), slice(matrix(x), 0, {.stop = 3}));
     }},
    {"batched products", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) {
       return sum(matmul(matmul(permute(x, {0, 2, 1}), x), expand(reshape(w, {1, 4, 5}), {x.dim(0), 4, 5})), {0, 1});
     },
     true},
    {"shared on the left", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) {
       return matmul(transposed(w), transposed(slice(matrix(x), 0, {.stop = 2})));
     }},
    {"statistics of a part", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) {
       const Tensor y = matmul(matrix(x), w);
       return sum(exp((y - mean(y, {0}, true)) / (1.0 + max(y, {0}, true))), {0});
     },
     true},
    {"movement of rows", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) {
       const Tensor y = matmul(matrix(x), w);
       return sum(concat({pad(slice(y, 0, {.start = 1, .step = 2}), {{1, 0}, {0, 0}}), flip(y, {0})}, 0) * 0.5, {0});
     }},
    {"movement within rows", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) {
       const Tensor y = matmul(matrix(x), w);
       return sum(concat({pad(slice(y, 1, {.start = 1, .stop = 4}), {{0, 0}, {1, 0}}), flip(y, {1})}, 1), {0});
     }},
    {"positions", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) {
       const Tensor y = matmul(matrix(x), w);
       return sum(
           y * unsqueeze(arange(0, y.dim(0), 1, DType::f32, &x.device()), 1) + arange(0, 5, 1, DType::f32, &x.device()),
           {0});
     }},
    {"softmax and gather", true,
     [](const Tensor& x, const Tensor& i, const Tensor& w) {
       return sum(
           gather(log_softmax(matmul(reshape(slice(x, 1, {.stop = 1}), {-1, 4}), w), 1), 1, reshape(i, {-1, 1})));
     }},
    {"rows of a table", true,
     [](const Tensor& x, const Tensor& i, const Tensor& w) {
       return matmul(transposed(take(w, i)), matmul(reshape(slice(x, 1, {.stop = 1}), {-1, 4}), w));
     }},
    {"columns of a table", false,
     [](const Tensor& x, const Tensor& i, const Tensor& w) {
       return matmul(reshape(slice(x, 1, {.stop = 1}), {-1, 4}), take(w, i, 1));
     }},
    {"greatest", true,
     [](const Tensor& x, const Tensor&, const Tensor& w) {
       return sum(max(matmul(matrix(x), w), {1}) + cast(argmax(matmul(matrix(x), w), 1), DType::f32));
     }},
    {"running sum", false,
     [](const Tensor& x, const Tensor&, const Tensor& w) { return sum(cumsum(matmul(matrix(x), w), 0), {0}); }},
    {"no product", false, [](const Tensor& x, const Tensor&, const Tensor&) { return sum(exp(x), {0}); }},
};

Tensor numbers(const Shape& shape, DeviceContext& device) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i) + 0.3));
  return Tensor::from_vector(values, shape, &device);
}

// How the parts of x lie.
enum class Parts { rows, rows_of_a_value, rows_with_gaps, along_the_second_axis };

Tensor part_of(const Tensor& x, Parts how, int64_t part, int64_t count) {
  const int axis = how == Parts::along_the_second_axis ? 1 : 0;
  const int64_t n = x.dim(axis) / count;
  return slice(x, axis, {.start = part * n, .stop = (part + 1) * n - (how == Parts::rows_with_gaps ? 1 : 0)});
}

Tensor sum_over_parts(const OfPart& f, Parts how, int64_t count, DeviceContext& device) {
  Tensor x = numbers({12, 6, 4}, device);
  const Tensor w = numbers({4, 5}, device);
  const Tensor indices =
      Tensor::from_vector(std::vector<int32_t>{0, 1, 3, 2, 2, 0, 1, 3, 3, 0, 2, 1}, Shape{12}, &device);
  if (how == Parts::rows_of_a_value) x = x * 1.5;
  Tensor total;
  for (int64_t part = 0; part < count; ++part) {
    const Tensor one = f(part_of(x, how, part, count), part_of(indices, Parts::rows, part, count), w);
    total = total.defined() ? total + one : one;
  }
  return total;
}

bool joins() { return join_parts(simplify(import_graph(capture(held_pending())))).has_value(); }

class JoinParts : public testing::TestWithParam<PartCase> {};
INSTANTIATE_TEST_SUITE_P(Cases, JoinParts, testing::ValuesIn(part_cases), [](const auto& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
});

TEST_P(JoinParts, HaveTheValueOfTheParts) {
  const std::vector<Parts> all =
      GetParam().everywhere
          ? std::vector{Parts::rows, Parts::rows_of_a_value, Parts::rows_with_gaps, Parts::along_the_second_axis}
          : std::vector{Parts::rows};
  for (const Parts how : all) {
    const Values want = sum_over_parts(GetParam().f, how, 3, device("reference:0")).to_doubles();
    DeviceContext& tested = device(test::kernel_devices().front());  // the rewrite knows of no device
    const Tensor total = sum_over_parts(GetParam().f, how, 3, tested);
    SCOPED_TRACE(tested.id() + ", lying " + std::to_string(static_cast<int>(how)));
    EXPECT_EQ(joins(), GetParam().joins);
    const Values got = total.to_doubles();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * (1 + std::abs(want[i]))) << i;
  }
}

// A network with all that parts keep for themselves: convolutions, statistics of a batch, random numbers, an embedding.
Values train(DeviceContext& device, int64_t parts) {
  manual_seed(4);
  nn::Conv2d conv(1, 3, {3, 3}, {.device = device});
  nn::BatchNorm norm(3, {.device = device});
  nn::Dropout drop(0.3);
  nn::Linear last(3 * 4 * 4, 5, {.device = device});
  nn::Embedding bias(5, 5, {.device = device});
  std::vector<Tensor> parameters;
  for (nn::Module* m : std::initializer_list<nn::Module*>{&conv, &norm, &last, &bias}) {
    for (const Tensor& p : m->parameters()) parameters.push_back(p);
  }
  nn::SGD optimizer(parameters, {.lr = 0.1});
  const Tensor x = numbers({12, 1, 6, 6}, device);
  const Tensor y = Tensor::from_vector(std::vector<int32_t>{0, 1, 3, 2, 4, 0, 1, 3, 4, 0, 2, 1}, Shape{12}, &device);
  const auto loss = [&](const Tensor& images, const Tensor& labels) {
    const Tensor features = reshape(drop(relu(norm(conv(images)))), {images.dim(0), -1});
    return cross_entropy(last(features) + bias(labels), labels);
  };
  Values all;
  for (int step = 0; step < 3; ++step) {
    all.push_back(nn::accumulate({.parts = parts}, loss, x, y).item());
    optimizer.update();
    optimizer.zero_grad();
  }
  parameters.push_back(norm.running_mean);
  parameters.push_back(norm.running_var);
  for (const Tensor& p : parameters) {
    const Values values = p.to_doubles();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(JoinPartsOfANetwork, KeepWhatIsTheirOwn) {
  for (const std::string& id : test::kernel_devices()) {
    Values apart;
    {
      const PassScope off("-parts");
      apart = train(device(id), 3);
    }
    const Values together = train(device(id), 3), reference = train(device("reference:0"), 3);
    ASSERT_EQ(together.size(), apart.size());
    for (size_t i = 0; i < apart.size(); ++i) {
      EXPECT_NEAR(together[i], apart[i], 2e-5) << id << " " << i;
      EXPECT_NEAR(together[i], reference[i], 1e-4) << id << " " << i;
    }
  }
}

}  // namespace
}  // namespace heddle
