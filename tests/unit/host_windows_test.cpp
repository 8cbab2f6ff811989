// Every function that takes whole numbers from the host, at the ends of i64: windows, transforms, draws, loops, axes.
#include <gtest/gtest.h>

#include <functional>

#include "heddle/core/functions/control/control.h"
#include "heddle/nn/embedding.h"
#include "heddle/nn/metrics.h"
#include "tests/support/host_integers.h"

namespace heddle::host_integers {
namespace {

TEST(HostIntegers, Windows) {
  const auto image = [] { return grid({1, 4, 6, 6}); };
  const auto kernel = [] { return grid({2, 2, 3, 3}); };
  const auto conv = [=](const ConvOptions& options) { return conv2d(image(), grid({2, 4, 3, 3}), options); };
  const auto conv_transpose = [=](const ConvOptions& options) {
    return conv_transpose2d(image(), grid({4, 2, 3, 3}), options);
  };
  expect({
      {"sliding_window", [](int64_t v) { return sliding_window(line(), 0, v); }, never},
      {"sliding_window", [](int64_t v) { return sliding_window(line(), 0, 2, v); }, from_zero({0, 1})},
      {"unfold", [=](int64_t v) { return unfold(image(), {v}); }, never},
      {"unfold", [=](int64_t v) { return unfold(image(), {2}, {.dilation = {v}}); }, never},
      {"unfold", [=](int64_t v) { return unfold(image(), {2}, {.padding = {v}}); }, never},
      {"unfold", [=](int64_t v) { return unfold(image(), {2}, {.stride = {v}}); }, never},
      {"fold",
       [](int64_t v) {
         return fold(grid({1, 4, 9}), {v}, {2});
       },
       never},
      {"fold",
       [](int64_t v) {
         return fold(grid({1, 4, 9}), {4}, {v});
       },
       never},
      {"fold",
       [](int64_t v) {
         return fold(grid({1, 4, 9}), {4}, {2}, {.padding = {v}});
       },
       never},
      {"pixel_shuffle", [=](int64_t v) { return pixel_shuffle(image(), v); }, never},
      {"pixel_shuffle",
       [](int64_t v) {
         return pixel_shuffle(grid({1, 0, 6, 6}), v);
       },
       never},
      {"pixel_unshuffle", [=](int64_t v) { return pixel_unshuffle(image(), v); }, never},
      {"pixel_unshuffle",
       [](int64_t v) {
         return pixel_unshuffle(grid({1, 4, 0, 0}), v);
       },
       never},
      {"channel_shuffle", [=](int64_t v) { return channel_shuffle(image(), v); }, never},
      {"max_pool2d", [=](int64_t v) { return max_pool2d(image(), {v}); }, never},
      {"max_pool2d", [=](int64_t v) { return max_pool2d(image(), {2}, {.stride = {v}}); }, never},
      {"max_pool2d", [=](int64_t v) { return max_pool2d(image(), {2}, {.padding = {v}}); }, never},
      {"max_pool2d", [=](int64_t v) { return max_pool2d(image(), {2}, {.dilation = {v}}); }, never},
      {"max_pool2d_with_indices",
       [=](int64_t v) {
         return max_pool2d_with_indices(image(), {2, v}).values;
       },
       never},
      {"avg_pool2d",
       [=](int64_t v) {
         return avg_pool2d(image(), {v, 2});
       },
       never},
      {"lp_pool2d",
       [=](int64_t v) {
         return lp_pool2d(image(), 2, {v, 2});
       },
       never},
      {"lp_pool3d",
       [](int64_t v) {
         return lp_pool3d(grid({1, 2, 2, 2, 2}), 2, {v});
       },
       never},
      {"adaptive_avg_pool2d", [=](int64_t v) { return adaptive_avg_pool2d(image(), {v}); }, never},
      {"adaptive_max_pool2d", [=](int64_t v) { return adaptive_max_pool2d(image(), {v}); }, never},
      {"fractional_max_pool2d", [=](int64_t v) { return fractional_max_pool2d(image(), {v}, {v}).values; }, never},
      {"fractional_max_pool2d", [=](int64_t v) { return fractional_max_pool2d(image(), {2}, {v}).values; }, never},
      {"max_unpool2d", [=](int64_t v) { return max_unpool2d(image(), cast(image(), DType::i64), {v}); }, never},
      {"max_unpool2d",
       [=](int64_t v) { return max_unpool2d(image(), cast(image(), DType::i64), {2}, {.stride = {v}}); }, never},
      {"max_unpool2d",
       [=](int64_t v) { return max_unpool2d(image(), cast(image(), DType::i64), {2}, {.padding = {v}}); }, never},
      {"max_unpool2d", [=](int64_t v) { return max_unpool2d(image(), cast(image(), DType::i64), {2}, {}, {v}); },
       never},
      {"interpolate", [=](int64_t v) { return interpolate(image(), {.size = {v}}); }, never},
      {"affine_grid",
       [](int64_t v) {
         return affine_grid(grid({1, 2, 3}), {1, 1, v, 2});
       },
       never},
      {"affine_grid",
       [](int64_t v) {
         return affine_grid(grid({1, 2, 3}), {v, 1, 2, 2});
       },
       never},
      {"local_response_norm",
       [](int64_t v) {
         return local_response_norm(grid({1, 2, 2}), v);
       },
       from_zero({0, 1, 2, 3})},
      {"conv2d", [=](int64_t v) { return conv({.stride = {v}}); }, never},
      {"conv2d", [=](int64_t v) { return conv({.padding = {v}}); }, never},
      {"conv2d", [=](int64_t v) { return conv({.dilation = {v}}); }, never},
      {"conv2d", [=](int64_t v) { return conv2d(image(), kernel(), {.groups = v}); }, never},
      {"conv2d",
       [=](int64_t v) {
         return conv2d(image(), grid({0, 2, 3, 3}), {.groups = v});
       },
       never},
      {"conv_transpose2d", [=](int64_t v) { return conv_transpose({.output_padding = {v}}); }, never},
      {"conv_transpose2d", [=](int64_t v) { return conv_transpose({.stride = {v}}); }, never},
  });
}

TEST(HostIntegers, TransformsAndDraws) {
  const auto signal = [] { return line(64); };
  const auto swapped = [](int64_t v) -> Outcome {
    if (v == least) return Refused{};
    return v % 2 == 0 ? Values{1, 0, 0, 1} : Values{0, 1, 1, 0};
  };
  expect({
      {"rfft", [=](int64_t v) { return rfft(signal(), {.n = v}); }, never},
      {"fft",
       [](int64_t v) {
         return fft(grid({8, 2}), {.n = v});
       },
       never},
      {"irfft",
       [](int64_t v) {
         return irfft(grid({8, 2}), {.n = v});
       },
       never},
      {"rfft2",
       [](int64_t v) {
         return rfft2(grid({8, 8}), {.sizes = {v, 4}});
       },
       never},
      {"stft", [=](int64_t v) { return stft(signal(), v); }, never},
      {"stft", [=](int64_t v) { return stft(signal(), 16, {.hop = v}); }, never},
      {"stft", [=](int64_t v) { return stft(signal(), 16, {.length = v}); }, never},
      {"istft", [=](int64_t v) { return istft(stft(signal(), 16), v); }, never},
      {"istft", [=](int64_t v) { return istft(stft(signal(), 16), 16, {.hop = v}); }, never},
      {"istft", [=](int64_t v) { return istft(stft(signal(), 16), 16, {}, v); }, sized([](Int v) { return Dims{v}; })},
      {"fftfreq", [](int64_t v) { return fftfreq(v, 1, &dev()); }, never},
      {"rfftfreq", [](int64_t v) { return rfftfreq(v, 1, &dev()); }, never},
      {"hann_window", [](int64_t v) { return hann_window(v, true, &dev()); }, sized([](Int v) { return Dims{v}; })},
      {"bartlett_window", [](int64_t v) { return bartlett_window(v, true, &dev()); },
       sized([](Int v) { return Dims{v}; })},
      {"matrix_power",
       [](int64_t v) {
         return matrix_power(reshape(Tensor::from_vector(std::vector<float>{0, 1, 1, 0}, {4}, &dev()), {2, 2}), v);
       },
       swapped},
      {"polygamma", [](int64_t v) { return polygamma(v, line()); }, never},
      {"multigammaln", [](int64_t v) { return multigammaln(line(), v); }, never},
      {"tensordot", [](int64_t v) { return tensordot(line(), line(), v > 0 ? INT32_MAX : INT32_MIN); }, never},
      {"randint", [](int64_t v) { return v > 0 ? randint(-v, v, {3}, &dev()) : randint(v, v, {3}, &dev()); },
       [](int64_t v) -> Outcome { return v == p32 || v == p32 + 3 ? Outcome(Shape{3}) : Outcome(Refused{}); }},
      {"randperm", [](int64_t v) { return randperm(v, &dev()); }, sized([](Int v) { return Dims{v}; })},
      {"multinomial", [](int64_t v) { return multinomial(line(), v); }, never},
      {"multinomial", [](int64_t v) { return multinomial(line(4), v, true); },
       [](int64_t v) -> Outcome { return v > 0 && v < p62 / 2 ? Outcome(Shape{v}) : Outcome(Refused{}); }},
      {"scan",
       [](int64_t v) {
         return scan(
                    [](const std::vector<Tensor>& c, const std::vector<Tensor>&) {
                      return Scanned{{c[0] + 1}, {}};
                    },
                    {line()}, {}, {.length = v})
             .carry[0];
       },
       never},
      {"while_loop",
       [](int64_t v) {
         return while_loop([](const std::vector<Tensor>& c) { return sum(c[0]) < 5; },
                           [](const std::vector<Tensor>& c) { return std::vector<Tensor>{c[0] + 1}; }, {line()},
                           {.max_iterations = v})
             .carry[0];
       },
       never},
      {"while_loop",
       [](int64_t v) {
         return while_loop([](const std::vector<Tensor>& c) { return sum(c[0]) < 5; },
                           [](const std::vector<Tensor>& c) { return std::vector<Tensor>{c[0] + 1}; }, {line()},
                           {.chunk = v})
             .carry[0];
       },
       never},
      {"Embedding", [](int64_t v) { return nn::Embedding(7, 2, {.padding = v, .device = dev()}).weight; }, never},
      {"ConfusionMatrix",
       [](int64_t v) { return line(static_cast<int64_t>(nn::ConfusionMatrix(v, dev()).counts().size())); }, never},
  });
}

// An axis is an int: its ends are those of i32.
TEST(HostIntegers, Axes) {
  const Tensor m = grid({2, 3}), i = cast(m, DType::i64), z = grid({2, 3, 2});
  using Call = std::function<Tensor(int)>;
  const std::vector<std::pair<const char*, Call>> table = {
      {"sum", [&](int a) { return sum(m, {a}); }},
      {"mean", [&](int a) { return mean(m, {a}); }},
      {"max", [&](int a) { return max(m, {a}); }},
      {"prod", [&](int a) { return prod(m, {a}); }},
      {"var", [&](int a) { return var(m, {a}); }},
      {"logsumexp", [&](int a) { return logsumexp(m, {a}); }},
      {"norm", [&](int a) { return norm(m, 2, {a}); }},
      {"any", [&](int a) { return any(m, {a}); }},
      {"argmax", [&](int a) { return argmax(m, a); }},
      {"cumsum", [&](int a) { return cumsum(m, a); }},
      {"cummax", [&](int a) { return cummax(m, a).values; }},
      {"sort", [&](int a) { return sort(m, a).values; }},
      {"topk", [&](int a) { return topk(m, 1, a).values; }},
      {"median", [&](int a) { return median(m, a).values; }},
      {"kthvalue", [&](int a) { return kthvalue(m, 1, a).values; }},
      {"quantile", [&](int a) { return quantile(m, 0.5, a); }},
      {"softmax", [&](int a) { return softmax(m, a); }},
      {"log_softmax", [&](int a) { return log_softmax(m, a); }},
      {"take", [&](int a) { return take(m, whole({0}), a); }},
      {"gather", [&](int a) { return gather(m, a, i); }},
      {"index_select", [&](int a) { return index_select(m, a, whole({0})); }},
      {"take_along_axis", [&](int a) { return take_along_axis(m, i, a); }},
      {"put_along_axis", [&](int a) { return put_along_axis(m, i, m, a); }},
      {"scatter", [&](int a) { return scatter(m, a, i, m); }},
      {"scatter_add", [&](int a) { return scatter_add(m, a, i, m); }},
      {"scatter_reduce", [&](int a) { return scatter_reduce(m, a, i, m, ScatterReduction::sum); }},
      {"index_copy", [&](int a) { return index_copy(m, a, whole({0}), m); }},
      {"index_fill", [&](int a) { return index_fill(m, a, whole({0}), 1); }},
      {"index_add", [&](int a) { return index_add(m, a, whole({0}), m); }},
      {"index_reduce", [&](int a) { return index_reduce(m, a, whole({0}), m, ScatterReduction::sum); }},
      {"concat",
       [&](int a) {
         return concat({m, m}, a);
       }},
      {"stack",
       [&](int a) {
         return stack({m, m}, a);
       }},
      {"split", [&](int a) { return split(m, {1}, a)[0]; }},
      {"chunk", [&](int a) { return chunk(m, 1, a)[0]; }},
      {"tensor_split", [&](int a) { return tensor_split(m, 1, a)[0]; }},
      {"unstack", [&](int a) { return unstack(m, a)[0]; }},
      {"select", [&](int a) { return select(m, a, 0); }},
      {"narrow", [&](int a) { return narrow(m, a, 0, 1); }},
      {"slice", [&](int a) { return slice(m, a, {}); }},
      {"squeeze", [&](int a) { return squeeze(m, a); }},
      {"unsqueeze", [&](int a) { return unsqueeze(m, a); }},
      {"transpose", [&](int a) { return transpose(m, a, 0); }},
      {"permute",
       [&](int a) {
         return permute(m, {a, 0});
       }},
      {"swapaxes", [&](int a) { return swapaxes(m, 0, a); }},
      {"moveaxis", [&](int a) { return moveaxis(m, a, 0); }},
      {"flip", [&](int a) { return flip(m, {a}); }},
      {"roll", [&](int a) { return roll(m, 1, a); }},
      {"flatten", [&](int a) { return flatten(m, a, 1); }},
      {"unflatten",
       [&](int a) {
         return unflatten(m, a, {1, -1});
       }},
      {"repeat_interleave", [&](int a) { return repeat_interleave(m, 2, a); }},
      {"rot90",
       [&](int a) {
         return rot90(m, 1, {a, 0});
       }},
      {"diagonal", [&](int a) { return diagonal(m, 0, a, 0); }},
      {"diag_embed", [&](int a) { return diag_embed(m, 0, a, 0); }},
      {"sliding_window", [&](int a) { return sliding_window(m, a, 1); }},
      {"diff", [&](int a) { return diff(m, 1, a); }},
      {"trapezoid", [&](int a) { return trapezoid(m, 1, a); }},
      {"cross", [&](int a) { return cross(m, m, a); }},
      {"cosine_similarity", [&](int a) { return cosine_similarity(m, m, a); }},
      {"normalize", [&](int a) { return normalize(m, 2, a); }},
      {"glu", [&](int a) { return glu(m, a); }},
      {"mode", [&](int a) { return mode(m, a).values; }},
      {"nanmedian", [&](int a) { return nanmedian(m, a).values; }},
      {"fft", [&](int a) { return fft(z, {.axis = a}); }},
      {"rfft", [&](int a) { return rfft(m, {.axis = a}); }},
      {"fftshift", [&](int a) { return fftshift(m, {a}); }},
      {"categorical", [&](int a) { return categorical(m, a); }},
      {"tensordot", [&](int a) { return tensordot(m, m, {a}, {0}); }},
  };
  for (const auto& [name, call] : table) {
    for (const int axis : {INT32_MIN, INT32_MAX, INT32_MIN + 2, 1 << 30, -4, 4})
      expect_outcome(
          fmt::format("{} along {}", name, axis), name, [&, f = call] { return f(axis); }, Refused{});
  }
}

}  // namespace
}  // namespace heddle::host_integers
