#include "tools/certify/cases.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/training_step.h"
#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/similar.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/core/graph/pending.h"
#include "heddle/nn/nn.h"

namespace heddle::tools::certify {
namespace {

// ---- bodies

Tensor matrix(DeviceContext& device, const Shape& shape, DType dtype = DType::f32) {
  return zeros(shape, dtype, &device);
}

// Of operands that nobody else holds, so that a conversion is the product's to read through.
Tensor product_of(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b) {
  return matmul(transpose_a ? transpose(a) : a, transpose_b ? transpose(b) : b);
}

Case matmul_case(const char* name, Shape a, Shape b, DType dtype, bool transpose_a = false, bool transpose_b = false) {
  return {"matmul", name, [=](DeviceContext& device) {
            const DType factor = dtype == DType::i8 ? DType::i32 : dtype;
            // Weights lie in memory: what is pending would become a prologue.
            const Tensor x = matrix(device, a, dtype), y = matrix(device, b, dtype);
            eval({x, y});
            const Tensor product = product_of(x.to(factor), y.to(factor), transpose_a, transpose_b);
            eval({product});
          }};
}

std::vector<Case> matmul_cases() {
  constexpr DType f32 = DType::f32;
  return {matmul_case("1024x1024x1024 f32", {1024, 1024}, {1024, 1024}, f32),
          matmul_case("4096x4096x4096 f32", {4096, 4096}, {4096, 4096}, f32),
          matmul_case("256x256x256 f32", {256, 256}, {256, 256}, f32),
          matmul_case("32x128x784 f32, transposed right", {32, 784}, {128, 784}, f32, false, true),
          matmul_case("784x128x32 f32, transposed left", {32, 784}, {32, 128}, f32, true, false),
          matmul_case("1x4096x4096 f32", {1, 4096}, {4096, 4096}, f32),
          matmul_case("64 of 33x17x5 f32", {64, 33, 5}, {64, 5, 17}, f32),
          matmul_case("4096x4096x4096 f16", {4096, 4096}, {4096, 4096}, DType::f16),
          matmul_case("256x256x256 f16", {256, 256}, {256, 256}, DType::f16),
          matmul_case("4096x4096x4096 bf16", {4096, 4096}, {4096, 4096}, DType::bf16),
          matmul_case("4096x4096x4096 i8", {4096, 4096}, {4096, 4096}, DType::i8),
          matmul_case("256x256x256 f64", {256, 256}, {256, 256}, DType::f64)};
}

struct ConvSizes {
  int64_t batch, in, size, out, kernel, stride, groups;
  DType dtype = DType::f32;
};

// Source and weight lie in memory; one of them may take a gradient.
struct Convolution {
  Tensor x, weight, y;
};
enum class Wanted : uint8_t { result, gradient_of_x, gradient_of_weight };

Convolution convolution(DeviceContext& device, const ConvSizes& s, Wanted wanted) {
  Convolution c;
  c.x = matrix(device, {s.batch, s.in, s.size, s.size}, s.dtype);
  c.weight = matrix(device, {s.out, s.in / s.groups, s.kernel, s.kernel}, s.dtype);
  eval({c.x, c.weight});
  if (wanted == Wanted::gradient_of_x) c.x.set_requires_grad();
  if (wanted == Wanted::gradient_of_weight) c.weight.set_requires_grad();
  c.y = conv2d(c.x, c.weight, {.stride = {s.stride}, .padding = {s.kernel / 2}, .groups = s.groups});
  return c;
}

void add_conv(std::vector<Case>& cases, const std::string& name, const ConvSizes& s) {
  cases.push_back({"conv", name, [s](DeviceContext& device) { eval({convolution(device, s, Wanted::result).y}); }});
  cases.push_back({"conv", name + ", gradient of x", [s](DeviceContext& device) {
                     const Convolution c = convolution(device, s, Wanted::gradient_of_x);
                     eval({grad(c.y, c.x, ones_like(c.y))});
                   }});
  cases.push_back({"conv_weight_grad", name, [s](DeviceContext& device) {
                     const Convolution c = convolution(device, s, Wanted::gradient_of_weight);
                     eval({grad(c.y, c.weight, ones_like(c.y))});
                   }});
}

std::vector<Case> conv_cases() {
  std::vector<Case> cases;
  add_conv(cases, "32x64x56x56, 64 of 3x3 f32", {32, 64, 56, 64, 3, 1, 1});
  add_conv(cases, "32x64x56x56, 128 of 1x1 f32", {32, 64, 56, 128, 1, 1, 1});
  add_conv(cases, "32x3x224x224, 64 of 7x7, stride 2 f32", {32, 3, 224, 64, 7, 2, 1});
  add_conv(cases, "32x96x56x56, 96 of 3x3, depthwise f32", {32, 96, 56, 96, 3, 1, 96});
  add_conv(cases, "32x64x56x56, 64 of 3x3 f16", {32, 64, 56, 64, 3, 1, 1, DType::f16});
  return cases;
}

void add_attention(std::vector<Case>& cases, const char* name, const Shape& shape, DType dtype, bool causal) {
  const auto inputs = [=](DeviceContext& device) {
    std::vector<Tensor> qkv;
    for (int i = 0; i < 3; ++i) qkv.push_back(matrix(device, shape, dtype));
    eval(qkv);
    return qkv;
  };
  cases.push_back({"attention", name, [=](DeviceContext& device) {
                     const std::vector<Tensor> t = inputs(device);
                     eval({scaled_dot_product_attention(t[0], t[1], t[2], {.causal = causal})});
                   }});
  cases.push_back({"attention_backward", name, [=](DeviceContext& device) {
                     std::vector<Tensor> t = inputs(device);
                     for (Tensor& one : t) one.set_requires_grad();
                     const Tensor y = scaled_dot_product_attention(t[0], t[1], t[2], {.causal = causal});
                     eval(grad(y, t, ones_like(y)));
                   }});
}

std::vector<Case> attention_cases() {
  std::vector<Case> cases;
  add_attention(cases, "8x12x1024x64 f32, causal", {8, 12, 1024, 64}, DType::f32, true);
  add_attention(cases, "8x16x512x128 f32", {8, 16, 512, 128}, DType::f32, false);
  add_attention(cases, "8x12x1024x64 f16, causal", {8, 12, 1024, 64}, DType::f16, true);
  return cases;
}

Tensor definite(DeviceContext& device, int64_t batch, int64_t n) {
  const Tensor x = matrix(device, {batch, n, n});
  const Tensor a = matmul(x, transpose(x)) + eye(n, n, DType::f32, &device);
  eval({a});
  return a;
}

// All bodies of the decompositions; a kernel counts for the body that it comes from.
std::vector<Case> linalg_cases() {
  std::vector<Case> cases;
  for (const int64_t n : {32, 256}) {
    const int64_t batch = n == 32 ? 64 : 4;
    const std::string name = fmt::format("{} of {}x{} f32", batch, n, n);
    const auto add = [&](const char* body, const std::function<void(const Tensor&)>& f) {
      cases.push_back({body, name, [=](DeviceContext& device) { f(definite(device, batch, n)); }});
    };
    add("cholesky", [](const Tensor& a) { eval({cholesky_ex(a).factor}); });
    add("blocks", [](const Tensor& a) { eval({cholesky_ex(a).factor}); });
    add("lu", [](const Tensor& a) { eval({solve_ex(a, a).result}); });
    add("triangular", [](const Tensor& a) { eval({solve_triangular(a, a)}); });
    add("qr", [](const Tensor& a) { eval({qr(a).q}); });
    for (const char* body : {"tridiagonal", "tridiagonal_sweeps", "rotate_rows"})
      add(body, [](const Tensor& a) { eval({eigh(a).vectors}); });
    for (const char* body : {"bidiagonal", "bidiagonal_sweeps"}) add(body, [](const Tensor& a) { eval({svd(a).u}); });
    add("jacobi", [](const Tensor& a) { eval({eigh(slice(slice(a, -1, {.stop = 8}), -2, {.stop = 8})).vectors}); });
  }
  return cases;
}

// Products with weights that stay packed.
std::vector<Case> packed_cases() {
  std::vector<Case> cases;
  for (const GgmlType type : {GgmlType::q4_0, GgmlType::q4_1, GgmlType::q8_0, GgmlType::q4_k, GgmlType::q6_k}) {
    const std::string name(block_of(type).name);
    const auto add = [&](const char* body, const std::string& of, int64_t rows) {
      cases.push_back({body, of, [=](DeviceContext& device) {
                         const Tensor weight = matrix(device, packed_shape(Shape{4096, 4096}, type), DType::u8);
                         const Tensor x = matrix(device, {rows, 4096});
                         eval({weight, x});
                         eval({matmul_packed(x, weight, type)});
                       }});
    };
    add("packed_matmul", fmt::format("1x4096 4096x4096 {}", name), 1);
    add("packed_matmul", fmt::format("8x4096 4096x4096 {}", name), 8);
    add("packed_matmul", fmt::format("512x4096 4096x4096 {}", name), 512);
    for (const int64_t rows : {1, 512}) {
      cases.push_back(
          {"packed_matmul_grad", fmt::format("{}x4096 4096x4096 {}", rows, name), [=](DeviceContext& device) {
             const Tensor weight = matrix(device, packed_shape(Shape{4096, 4096}, type), DType::u8);
             const Tensor g = matrix(device, {rows, 4096});
             eval({weight, g});
             eval({packed::input_grad(g, weight, type)});
           }});
    }
    cases.push_back({"unpack_blocks", fmt::format("4096x4096 {}", name), [=](DeviceContext& device) {
                       const Tensor weight = matrix(device, packed_shape(Shape{4096, 4096}, type), DType::u8);
                       eval({weight});
                       eval({unpack_blocks(weight, type)});
                     }});
  }
  return cases;
}

std::vector<Case> data_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* body, const char* name, const std::function<void(DeviceContext&)>& f) {
    cases.push_back({body, name, f});
  };
  for (const char* body : {"sort_blocks", "sort_merge"}) {
    add(body, "64x65536 f32", [](DeviceContext& d) {
      const Ordered sorted = sort(matrix(d, {64, 65536}));
      eval({sorted.values, sorted.indices});
    });
  }
  add("sort_blocks", "64x1000 i32, topk 10", [](DeviceContext& d) {
    const Ordered best = topk(matrix(d, {64, 1000}, DType::i32), 10);
    eval({best.values, best.indices});
  });
  add("scan", "64x65536 f32", [](DeviceContext& d) { eval({cumsum(matrix(d, {64, 65536}), 1)}); });
  add("scan", "1024x64 i32", [](DeviceContext& d) { eval({cumsum(matrix(d, {1024, 64}, DType::i32), 0)}); });
  add("segment_add", "50257x768, 4096 rows f32", [](DeviceContext& d) {
    Tensor weight = matrix(d, {50257, 768});
    weight.set_requires_grad();
    const Tensor y = embedding(weight, matrix(d, {4096}, DType::i32));
    eval({grad(y, weight, ones_like(y))});
  });
  return cases;
}

// Of lengths that are no power of two: radices, a large one, half spectra, a convolution, columns with twiddles.
std::vector<Case> fft_cases() {
  const auto pairs = [](Shape shape, int axis) {
    return [=](DeviceContext& d) { eval({fft(matrix(d, shape), {.axis = axis})}); };
  };
  return {{"fft", "64x4096 f32", pairs({64, 4096, 2}, -1)},
          {"fft_lines", "64x1000 f32", pairs({64, 1000, 2}, -1)},
          {"fft_lines", "64x2016 f32", pairs({64, 2016, 2}, -1)},
          {"fft_lines", "64x403 f32", pairs({64, 403, 2}, -1)},
          {"fft_lines", "64x1009 f32, a convolution", pairs({64, 1009, 2}, -1)},
          {"fft_lines", "240x64 f32, columns", pairs({240, 64, 2}, 0)},
          {"fft_lines", "8x65536 f32, two launches", pairs({8, 65536, 2}, -1)},
          {"fft_lines", "64x1000 f32, reals",
           [](DeviceContext& d) {
             eval({rfft(matrix(d, {64, 1000}))});
           }},
          {"fft_lines", "64x1000 f32, reals back", [](DeviceContext& d) {
             eval({irfft(matrix(d, {64, 501, 2}), {.n = 1000})});
           }}};
}

// Bodies that no call here reaches: as they are without a picker.
std::vector<Case> plain_cases() {
  std::vector<Case> cases;
  for (const char* body : {"copy", "copy_rows", "reduce", "scatter_add"}) {
    cases.push_back({body, "the file's defaults",
                     [body](DeviceContext& device) { device.kernel(KernelFile::builtin(body).instantiate({})); }});
  }
  return cases;
}

// ---- recipes

void run_step(const bench::TrainingStep& step) {
  for (int i = 0; i < 2; ++i) {  // the first makes the optimizer's state
    const Tensor loss = step.record();
    eval_pending();
  }
}

bench::TrainingStep cifar_step(DeviceContext& device) {
  bench::TrainingStep step = bench::make_training_step("resnet18:128x64", device);
  step.optimizer = std::make_shared<nn::SGD>(
      step.model->parameters(), nn::SgdOptions{.lr = 0.2, .momentum = 0.9, .weight_decay = 5e-4, .nesterov = true});
  return step;
}

// One part of the recipe's eight; the others repeat its kernels.
bench::TrainingStep gpt2_step(DeviceContext& device) {
  constexpr int64_t batch = 4, vocabulary = 2048;
  nn::GptOptions options = nn::gpt2();
  options.vocabulary = vocabulary;
  bench::TrainingStep step;
  const auto model = std::make_shared<nn::Gpt>(options, nn::ParameterOptions{.device = device});
  step.model = model;
  step.x = step.y = matrix(device, {batch, options.context}, DType::i32);
  step.optimizer = std::make_shared<nn::AdamW>(model->parameters(), 6e-4);
  step.optimizer->set_clip_norm(1.0);
  step.loss = [model](const Tensor& x, const Tensor& y) {
    return cross_entropy(reshape((*model)(x), {-1, vocabulary}), reshape(y, {-1}));
  };
  return step;
}

std::vector<Case> recipe_cases() {
  std::vector<Case> cases;
  const auto add = [&](const char* recipe, const char* name,
                       const std::function<bench::TrainingStep(DeviceContext&)>& make) {
    cases.push_back({recipe, name, [make](DeviceContext& device) { run_step(make(device)); }, true});
  };
  const auto known = [](const char* step) {
    return [step](DeviceContext& device) { return bench::make_training_step(step, device); };
  };
  add("mnist-mlp", "a step of 32", known("mnist-mlp"));
  add("mnist-cnn", "a step of 64", known("mnist-cnn"));
  add("mail-sorter", "a step of 64", known("mnist-cnn"));  // the same network and loss
  add("vae", "a step of 128", known("vae"));
  add("char-lstm", "a step of 32", known("char-lstm"));
  add("char-gpt", "a step of 12", known("char-gpt"));
  add("cifar-resnet", "a step of 128", cifar_step);
  add("gpt2", "a step of 4", gpt2_step);
  return cases;
}

}  // namespace

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> all;
    for (const auto make : {matmul_cases, conv_cases, attention_cases, linalg_cases, packed_cases, data_cases,
                            fft_cases, plain_cases, recipe_cases}) {
      for (Case& c : make()) all.push_back(std::move(c));
    }
    return all;
  }();
  return cases;
}

std::vector<const Case*> find_cases(const std::vector<std::string>& subjects) {
  std::vector<const Case*> found;
  std::vector<std::string_view> known;
  for (const Case& c : all_cases()) {
    if (std::find(known.begin(), known.end(), c.subject) == known.end()) known.push_back(c.subject);
    if (subjects.empty() || std::find(subjects.begin(), subjects.end(), c.subject) != subjects.end())
      found.push_back(&c);
  }
  for (const std::string& subject : subjects) {
    if (std::find(known.begin(), known.end(), subject) != known.end()) continue;
    throw ValueError(fmt::format("[certify] unknown body or recipe '{}'{}; known: {}", subject,
                                 did_you_mean(subject, known), fmt::join(known, ", ")));
  }
  return found;
}

}  // namespace heddle::tools::certify
