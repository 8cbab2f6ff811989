// Models through the C interface and through the library, and files that were changed: what the group's tests share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/io/write_model_parts.h"
#include "heddle/runtime/heddle.h"
#include "heddle/runtime/model_target.h"
#include "tests/runtime/zoo.h"
#include "tests/support/temporary_folder.h"

namespace heddle::test {

using Bytes = std::vector<uint8_t>;

// Parts of a file with some of them changed.
inline void rewrite(const std::string& from, const std::string& to,
                    const std::function<void(ModelPart&, Bytes&)>& change) {
  const ModelParts parts = ModelParts::read(from);
  std::vector<ModelPart> made;
  std::vector<Bytes> bytes;
  bytes.reserve(parts.entries().size());
  for (const PartEntry& entry : parts.entries()) {
    const auto held = parts.bytes(entry);
    bytes.emplace_back(held.begin(), held.end());
    made.push_back({.name = entry.name,
                    .kind = entry.kind,
                    .target = entry.target,
                    .bucket = entry.bucket,
                    .attributes = entry.attributes});
    change(made.back(), bytes.back());
    made.back().bytes = bytes.back();
  }
  write_model_parts(to, made);
}

inline void change_image(const std::string& from, const std::string& to,
                         const std::function<void(ModelImage&)>& change) {
  rewrite(from, to, [&](ModelPart& part, Bytes& bytes) {
    if (part.kind != PartKind::image) return;
    ModelImage image = model_image_from_bytes(bytes);
    change(image);
    bytes = model_image_bytes(image);
  });
}

struct Opened {
  Opened(const std::string& file, const std::string& device, unsigned flags = 0) {
    status = heddle_open(file.c_str(), device.c_str(), flags, &model);
    why = model == nullptr ? heddle_error(nullptr) : "";
  }
  ~Opened() { heddle_close(model); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  heddle_model* model = nullptr;
  heddle_status status;
  std::string why;
};

inline std::vector<Bytes> run_through_c(heddle_model* model, const Golden& given) {
  std::vector<Bytes> outputs;
  for (size_t i = 0; i < given.inputs.size(); ++i) {
    const Bytes& bytes = given.inputs[i].bytes;
    EXPECT_EQ(heddle_input(model, static_cast<uint32_t>(i), bytes.data(), bytes.size()), HEDDLE_OK)
        << heddle_error(model);
  }
  EXPECT_EQ(heddle_run(model), HEDDLE_OK) << heddle_error(model);
  heddle_port port;
  for (uint32_t i = 0; heddle_output_port(model, i, &port) == HEDDLE_OK; ++i) {
    outputs.emplace_back(port.bytes);
    EXPECT_EQ(heddle_output(model, i, outputs.back().data(), port.bytes), HEDDLE_OK) << heddle_error(model);
  }
  return outputs;
}

// What compile(f) gives from its third call on.
inline std::vector<Bytes> run_compiled(DeviceContext& device, const ModelFunction& function, const Golden& given) {
  std::vector<Tensor> inputs;
  for (const Golden::Value& value : given.inputs) {
    const Shape shape(value.shape);
    inputs.push_back(
        Tensor::from_bytes(value.bytes.data(), static_cast<size_t>(shape.numel()), value.dtype, shape, &device));
  }
  const auto compiled = compile([&](const std::vector<Tensor>& x) { return function.call(x); });
  std::vector<Tensor> results;
  for (int i = 0; i < 3; ++i) results = compiled(inputs);
  std::vector<Bytes> outputs;
  for (const Tensor& result : results) outputs.push_back(result.to_bytes());
  return outputs;
}

class RuntimeTest : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() { return device(GetParam()); }
  std::string written(const FunctionsOn& functions, DeviceContext* golden = nullptr) {
    const std::string path = folder / "net.heddle";
    write_compiled(path, functions, {&dev()}, golden);
    return path;
  }
  // It is refused, with that status and text.
  void expect_refused(const std::string& file, heddle_status status, const std::string& text) {
    const Opened opened(file, GetParam());
    EXPECT_EQ(opened.status, status) << opened.why;
    EXPECT_TRUE(contains(opened.why, text));
    EXPECT_EQ(opened.why.find('\n'), std::string::npos) << opened.why;
  }
  TemporaryFolder folder;
};

// "opencl_0" for the device of a test.
inline std::string device_name(const ::testing::TestParamInfo<std::string>& instance) {
  std::string name = instance.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

}  // namespace heddle::test
