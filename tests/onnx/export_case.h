// What the tests of ONNX export share: a function is exported, imported again, and called beside itself.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/module.h"
#include "heddle/nn/parameter_options.h"
#include "heddle/onnx/export.h"
#include "heddle/onnx/import.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {

using onnx::Dimension;
using onnx::ExportFunction;
using onnx::ExportInput;
using onnx::ExportOptions;

inline const Dimension varying{{}, "N"};

inline std::vector<Dimension> sizes(std::initializer_list<int64_t> given) {
  std::vector<Dimension> result;
  for (const int64_t size : given) result.push_back(size < 0 ? varying : Dimension{size, ""});
  return result;
}

class OnnxExport : public testing::Test {
 protected:
  static DeviceContext& host() { return device("reference:0"); }
  static Tensor random(const Shape& shape, DType dtype = DType::f32, uint64_t seed = 7) {
    Generator generator{seed, 0};
    const Tensor drawn = uniform(shape, 0, 1, &host(), &generator);
    return is_float(dtype) ? cast(drawn * 2 - 1, dtype) : cast(drawn * 7, dtype);
  }
  onnx::Model exported(const ExportFunction& f, const std::vector<ExportInput>& inputs, ExportOptions options) {
    options.device = &host();
    report = onnx::save(folder / "net.onnx", f, inputs, options);
    onnx::LoadOptions load;
    load.device = &host();
    return onnx::load(folder / "net.onnx", load);
  }
  // The bits of f where nothing is expanded; values that are as near as ONNX's ops can say where all is.
  void expect_same(const ExportFunction& f, const std::vector<ExportInput>& inputs,
                   const std::vector<std::vector<Tensor>>& calls, ExportOptions options = {}) {
    for (const int opset : {17, 18, 20, 21}) {
      options.opset = opset;
      options.functions = true;
      const onnx::Model model = exported(f, inputs, options);
      options.functions = false;
      const onnx::Model plain = exported(f, inputs, options);
      EXPECT_EQ(report.functions, 0u);
      for (const std::vector<Tensor>& arguments : calls) {
        const NoGradScope no_grad;
        const std::vector<Tensor> wanted = f(arguments), found = model.call(arguments), near = plain.call(arguments);
        ASSERT_EQ(found.size(), wanted.size());
        for (size_t i = 0; i < wanted.size(); ++i) {
          ASSERT_EQ(found[i].shape(), wanted[i].shape()) << "opset " << opset;
          ASSERT_EQ(found[i].dtype(), wanted[i].dtype()) << "opset " << opset;
          EXPECT_EQ(found[i].to_bytes(), wanted[i].to_bytes()) << "opset " << opset;
          expect_near(near[i], wanted[i], opset);
        }
      }
    }
  }
  static void expect_near(const Tensor& found, const Tensor& wanted, int opset) {
    ASSERT_EQ(found.shape(), wanted.shape()) << "plain, opset " << opset;
    ASSERT_EQ(found.dtype(), wanted.dtype()) << "plain, opset " << opset;
    const std::vector<double> a = found.to_doubles(), b = wanted.to_doubles();
    const double bound = is_half(wanted.dtype()) ? 1e-2 : 1e-6;  // each op of a half rounds
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == b[i] || (a[i] != a[i] && b[i] != b[i])) continue;
      ASSERT_NEAR(a[i], b[i], bound * std::max(1.0, std::abs(b[i]))) << "plain, opset " << opset << ", element " << i;
    }
  }
  void expect_same(const std::function<Tensor(const Tensor&)>& f, const Shape& shape, DType dtype = DType::f32) {
    std::vector<Dimension> fixed;
    for (const int64_t size : shape) fixed.push_back({size, ""});
    expect_same([&](const std::vector<Tensor>& x) { return std::vector{f(x[0])}; }, {{"x", dtype, fixed}},
                {{random(shape, dtype)}});
  }
  // Weights as after a training: what is one number throughout is folded where it is imported, and a head of zeros
  // would hide the rest.
  void draw_weights(nn::Module& model) {
    uint64_t seed = 100;
    for (const auto& [name, value] : model.state_dict()) {
      const Tensor drawn = random(value.shape(), value.dtype(), ++seed) * 0.5;
      Tensor parameter = value;
      parameter.assign(name.ends_with("running_var") ? abs(drawn) + 0.1 : drawn);
    }
  }
  // With two batches.
  void expect_model(nn::Module& model, std::initializer_list<int64_t> shape, DType dtype = DType::f32) {
    model.eval();
    draw_weights(model);
    std::vector<std::vector<Tensor>> calls;
    for (const int64_t batch : {1, 3}) {
      Shape sized;
      for (const int64_t size : shape) sized.push_back(size < 0 ? batch : size);
      calls.push_back({random(sized, dtype)});
    }
    ExportOptions options;
    options.names = model.state_dict();
    expect_same([&](const std::vector<Tensor>& x) { return std::vector{model(x[0])}; }, {{"x", dtype, sizes(shape)}},
                calls, options);
    for (const auto& [name, value] : options.names) parameters += static_cast<uint64_t>(value.numel());
  }
  nn::ParameterOptions on() const { return {.device = host()}; }

  test::TemporaryFolder folder;
  onnx::ExportReport report;
  uint64_t parameters = 0;
};

}  // namespace heddle::tests
