// Every function that takes whole numbers from the host, at the ends of i64: parts, copies, shapes, classes.
#include "tests/support/host_integers.h"

#include <gtest/gtest.h>

namespace heddle::host_integers {
namespace {

Values rolled(int64_t v) {
  Values all;
  for (Int i = 0; i < 7; ++i) all.push_back(static_cast<double>(((i - v) % 7 + 7) % 7));
  return all;
}
Values turned(int64_t v) {  // of grid({2, 3}), a quarter to the left each
  const std::vector<Values> ways = {{0, 1, 2, 3, 4, 5}, {2, 5, 1, 4, 0, 3}, {5, 4, 3, 2, 1, 0}, {3, 0, 4, 1, 5, 2}};
  return ways[static_cast<size_t>(((v % 4) + 4) % 4)];
}

TEST(HostIntegers, PartsAndOrder) {
  const Values all = {0, 1, 2, 3, 4, 5, 6};
  expect({
      {"select", [](int64_t v) { return select(line(), 0, v); }, never},
      {"narrow", [](int64_t v) { return narrow(line(), 0, v, 2); }, never},
      {"narrow", [](int64_t v) { return narrow(line(), 0, 2, v); }, never},
      {"narrow", [](int64_t v) { return narrow(line(), 0, v, v); }, never},
      {"slice", [](int64_t v) { return slice(line(), 0, {.start = v}); }, by_sign({}, all)},
      {"slice", [](int64_t v) { return slice(line(), 0, {.stop = v}); }, by_sign(all, {})},
      {"slice", [](int64_t v) { return slice(line(), 0, {.step = v}); }, by_sign({0}, {6})},
      {"slice", [](int64_t v) { return slice(line(), 0, {.start = v, .step = -1}); },
       by_sign({6, 5, 4, 3, 2, 1, 0}, {})},
      {"slice", [](int64_t v) { return slice(line(), 0, {.start = 2, .stop = v, .step = v}); }, by_sign({2}, {2})},
      {"roll", [](int64_t v) { return roll(line(), v, 0); }, rolled},
      {"roll", [](int64_t v) { return roll(line(), {v}); }, rolled},
      {"topk", [](int64_t v) { return topk(line(), v).values; }, never},
      {"kthvalue", [](int64_t v) { return kthvalue(line(), v).values; }, never},
      {"split", [](int64_t v) { return split(line(), {v}, 0)[0]; }, never},
      {"split",
       [](int64_t v) {
         return split(line(), {v, static_cast<int64_t>(7 - static_cast<uint64_t>(v))}, 0)[0];
       },
       never},
      {"split",
       [](int64_t v) {
         return split(line(), {most, most, 9, v, static_cast<int64_t>(-static_cast<uint64_t>(v))}, 0)[0];
       },
       never},
      {"tensor_split", [](int64_t v) { return tensor_split(line(), v)[0]; }, never},
      {"tensor_split", [](int64_t v) { return tensor_split(line(), std::vector<int64_t>{v})[0]; }, by_sign(all, {})},
      {"chunk", [](int64_t v) { return chunk(line(), v).at(6); }, from_zero({6})},
      {"chunk", [](int64_t v) { return chunk(line(0), v)[0]; }, never},
      {"diff", [](int64_t v) { return diff(line(), static_cast<int>(v > 0 ? INT32_MAX : INT32_MIN)); }, from_zero({})},
      {"combinations", [](int64_t v) { return combinations(line(), v); }, sized([](Int v) {
         return Dims{0, v};
       })},
      {"combinations", [](int64_t v) { return combinations(line(), v, true); }, never},
  });
}

TEST(HostIntegers, CopiesAndShapes) {
  // Each bin beside each element.
  const auto counted = [](int64_t v) { return v > 0 && v < p62 ? Outcome(Shape{v}) : Outcome(Refused{}); };
  expect({
      {"repeat", [](int64_t v) { return repeat(line(), {v}); }, sized([](Int v) { return Dims{7 * v}; })},
      {"repeat",
       [](int64_t v) {
         return repeat(line(), {v, v});
       },
       sized([](Int v) {
         return Dims{v, 7 * v};
       })},
      {"repeat",
       [](int64_t v) {
         return repeat(grid({0, 4}), {1, v});
       },
       sized([](Int v) {
         return Dims{0, 4 * v};
       })},
      {"tile", [](int64_t v) { return tile(line(), {v}); }, sized([](Int v) { return Dims{7 * v}; })},
      {"repeat_interleave", [](int64_t v) { return repeat_interleave(line(), v); },
       sized([](Int v) { return Dims{7 * v}; })},
      {"repeat_interleave",
       [](int64_t v) {
         return repeat_interleave(grid({0, 4}), v, 1);
       },
       sized([](Int v) {
         return Dims{0, 4 * v};
       })},
      {"reshape",
       [](int64_t v) {
         return reshape(line(), {v, -1});
       },
       never},
      {"reshape",
       [](int64_t v) {
         return reshape(line(), {v, v, 7});
       },
       never},
      {"unflatten",
       [](int64_t v) {
         return unflatten(line(), 0, {v, -1});
       },
       never},
      {"unflatten",
       [](int64_t v) {
         return unflatten(line(), 0, {v, v});
       },
       never},
      {"pad",
       [](int64_t v) {
         return pad(line(), {{v, 0}});
       },
       sized([](Int v) { return Dims{7 + v}; })},
      {"pad",
       [](int64_t v) {
         return pad(line(), {{1, v}});
       },
       sized([](Int v) { return Dims{8 + v}; })},
      {"pad",
       [](int64_t v) {
         return pad(line(), {{v, v}});
       },
       sized([](Int v) { return Dims{7 + 2 * v}; })},
      {"pad",
       [](int64_t v) {
         return pad(line(), {{v, 1}}, PadMode::reflect);
       },
       never},
      {"pad",
       [](int64_t v) {
         return pad(line(), {{1, v}}, PadMode::circular);
       },
       never},
      {"pad",
       [](int64_t v) {
         return pad(line(), {{1, v}}, PadMode::replicate);
       },
       sized([](Int v) { return Dims{8 + v}; })},
      {"rot90",
       [](int64_t v) {
         return rot90(grid({2, 3}), v);
       },
       turned},
      {"tril",
       [](int64_t v) {
         return tril(grid({2, 3}), v);
       },
       by_sign({0, 1, 2, 3, 4, 5}, {0, 0, 0, 0, 0, 0})},
      {"triu",
       [](int64_t v) {
         return triu(grid({2, 3}), v);
       },
       by_sign({0, 0, 0, 0, 0, 0}, {0, 1, 2, 3, 4, 5})},
      {"diagonal",
       [](int64_t v) {
         return diagonal(grid({2, 3}), v);
       },
       by_sign({}, {})},
      {"diag",
       [](int64_t v) {
         return diag(grid({2, 3}), v);
       },
       by_sign({}, {})},
      {"diag", [](int64_t v) { return diag(line(), v); }, never},
      {"diag_embed", [](int64_t v) { return diag_embed(line(), v); }, never},
      {"one_hot",
       [](int64_t v) {
         return one_hot(whole({1, 2}), v);
       },
       sized([](Int v) {
         return Dims{2, v};
       })},
      {"vander", [](int64_t v) { return vander(line(), v); }, sized([](Int v) {
         return Dims{7, v};
       })},
      {"eye", [](int64_t v) { return eye(v, 2, DType::f32, &dev()); }, sized([](Int v) {
         return Dims{v, 2};
       })},
      {"eye", [](int64_t v) { return eye(2, v, DType::f32, &dev()); }, sized([](Int v) {
         return Dims{2, v};
       })},
      {"linspace", [](int64_t v) { return linspace(0, 1, v, DType::f32, &dev()); },
       sized([](Int v) { return Dims{v}; })},
      {"logspace", [](int64_t v) { return logspace(0, 1, v, 10, DType::f32, &dev()); },
       sized([](Int v) { return Dims{v}; })},
      {"alibi_bias", [](int64_t v) { return alibi_bias(v, 2, 2, &dev()); }, sized([](Int v) {
         return Dims{v, 2, 2};
       })},
      {"alibi_bias", [](int64_t v) { return alibi_bias(2, v, v, &dev()); }, sized([](Int v) {
         return Dims{2, v, v};
       })},
      {"sinusoidal_positions", [](int64_t v) { return sinusoidal_positions(v, 4, 10000, &dev()); }, sized([](Int v) {
         return Dims{v, 4};
       })},
      {"sinusoidal_positions", [](int64_t v) { return sinusoidal_positions(4, v / 2 * 2, 10000, &dev()); },
       sized([](Int v) {
         return Dims{4, v / 2 * 2};
       })},
      {"rotary_embedding",
       [](int64_t v) {
         return rotary_embedding(grid({2, 4}), {.dims = v});
       },
       never},
      {"histogram", [](int64_t v) { return histogram(line(), v, 0, 1); }, counted},
      {"bincount",
       [](int64_t v) {
         return bincount(whole({1, 2}), v);
       },
       counted},
  });
}

// A number of a class that is left out: exactly that one, though a number beside a tensor is a double.
TEST(HostIntegers, IgnoredClasses) {
  const Tensor logp =
      reshape(Tensor::from_vector(std::vector<float>{-1, -2, -4, -1, -2, -4, -1, -2, -4}, {9}, &dev()), {3, 3});
  const Tensor blank = stack({log_softmax(logp), log_softmax(logp)}, 0);
  const IndexGuardScope off(false);
  std::vector<int64_t> numbers = extremes;
  numbers.insert(numbers.end(), {(int64_t{1} << 53) + 1, -(int64_t{1} << 60) - 1, -100});
  for (const int64_t v : numbers) {
    SCOPED_TRACE(v);
    const int64_t other = v > 0 ? v - 1 : v + 1;  // no class: the nearest is read
    const double read = other > 0 ? 4 : 1;
    const Tensor targets = whole({1, v, other});
    const Values expected = {2, 0, read};
    EXPECT_EQ(nll_loss(logp, targets, {.reduction = Reduction::none, .ignore_index = v}).to_doubles(), expected);
    EXPECT_NEAR(nll_loss(logp, targets, {.ignore_index = v}).item(), (2 + read) / 2, 1e-6);
    EXPECT_NEAR(cross_entropy(logp, targets, {.reduction = Reduction::sum, .ignore_index = v}).item() -
                    cross_entropy(slice(logp, 0, {.stop = 2}), whole({1, other > 0 ? 2 : 0}), Reduction::sum).item(),
                0, 1e-5);
    expect_outcome(
        "blank", "ctc_loss",
        [&] {
          return ctc_loss(blank, cast(ones({3, 1}, DType::i32, &dev()), DType::i64), whole({2, 2, 2}), whole({1, 1, 1}),
                          {.blank = v});
        },
        Refused{});
  }
}

}  // namespace
}  // namespace heddle::host_integers
