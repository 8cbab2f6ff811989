// The models of Debian's libonnx-testdata, on each device: stored inputs, stored outputs.
#include "tests/onnx/cases.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "heddle/core/device/context.h"
#include "heddle/io/read_file.h"
#include "heddle/onnx/import.h"
#include "heddle/onnx/parse.h"
#include "tests/onnx/wire.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

using onnx::HostTensor;
using onnx::Value;

std::string content(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, "test");
  return {bytes.begin(), bytes.end()};
}

// Files of sequences hold their tensors in field 3; those of optional values a tensor (3) or a sequence (5).
std::vector<std::string> parts(const std::string& bytes, uint32_t field) {
  std::vector<std::string> result;
  for (const auto& [number, block] : blocks_of(bytes)) {
    if (number == field) result.push_back(block);
  }
  return result;
}

// What a file holds, as the port says.
struct Stored {
  enum class Kind { tensor, sequence, empty } kind = Kind::tensor;
  std::vector<HostTensor> tensors;
};

// The files hold bfloat16 as the bits of uint16.
HostTensor tensor_in(const std::string& bytes, const std::string& path, onnx::Type type) {
  HostTensor tensor = onnx::parse_tensor(bytes, path);
  if (type == onnx::Type::bf16 && tensor.type == onnx::Type::u16) tensor.type = type;
  return tensor;
}

Stored read_stored(const std::string& path, const onnx::Port& port) {
  const onnx::PortKind kind = port.kind;
  const bool sequence_inside = port.of_sequences;
  std::string bytes = content(path);
  if (kind == onnx::PortKind::optional) {
    const std::vector<std::string> element = parts(bytes, sequence_inside ? 5 : 3);
    if (element.empty()) return {Stored::Kind::empty, {}};
    bytes = element[0];
  }
  if (kind == onnx::PortKind::sequence || (kind == onnx::PortKind::optional && sequence_inside)) {
    Stored stored{Stored::Kind::sequence, {}};
    for (const std::string& part : parts(bytes, 3)) stored.tensors.push_back(tensor_in(part, path, port.type));
    return stored;
  }
  return {Stored::Kind::tensor, {tensor_in(bytes, path, port.type)}};
}

Value value_of(const onnx::Model& model, const Stored& stored, onnx::Type type) {
  if (stored.kind == Stored::Kind::empty) return Value::empty_optional();
  std::vector<Value> values;
  for (const HostTensor& t : stored.tensors) values.push_back(model.given(t));
  return stored.kind == Stored::Kind::tensor ? values.at(0) : Value::sequence(values, type);
}

// The tolerances of ONNX's own test of back ends; integers and bool are equal.
void expect_close(const HostTensor& got, const HostTensor& wanted, const std::string& what) {
  ASSERT_EQ(onnx::name_of(got.type), onnx::name_of(wanted.type)) << what;
  ASSERT_EQ(got.shape.str(), wanted.shape.str()) << what;
  if (!onnx::is_float(wanted.type)) {
    ASSERT_EQ(got.ints(), wanted.ints()) << what;
    return;
  }
  const std::vector<double> a = got.reals(), b = wanted.reals();
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    ASSERT_LE(std::abs(a[i] - b[i]), 1e-7 + 1e-3 * std::abs(b[i]))
        << what << "[" << i << "] is " << a[i] << ", not " << b[i];
  }
}

HostTensor read_back(const onnx::Model& model, const Value& value) {
  return HostTensor::from_stored(value.type(), value.shape(), model.tensor(value).to_bytes());
}

void expect_output(const onnx::Model& model, const Value& value, const Stored& wanted, const std::string& what) {
  if (wanted.kind == Stored::Kind::empty) {
    EXPECT_TRUE(value.is_empty_optional()) << what;
    return;
  }
  if (wanted.kind == Stored::Kind::tensor) {
    ASSERT_TRUE(value.is_tensor()) << what;
    return expect_close(read_back(model, value), wanted.tensors[0], what);
  }
  ASSERT_TRUE(value.is_sequence()) << what;
  ASSERT_EQ(value.items().size(), wanted.tensors.size()) << what;
  for (size_t i = 0; i < wanted.tensors.size(); ++i)
    expect_close(read_back(model, value.items()[i]), wanted.tensors[i], what);
}

void run_set(const onnx::Model& model, const std::filesystem::path& set, DeviceContext& device) {
  std::vector<Value> inputs;
  for (size_t i = 0; i < model.inputs().size(); ++i) {
    const std::string path = (set / ("input_" + std::to_string(i) + ".pb")).string();
    if (!std::filesystem::exists(path)) break;
    inputs.push_back(value_of(model, read_stored(path, model.inputs()[i]), model.inputs()[i].type));
  }
  const DeviceCounters before = device.counters();
  const std::vector<Value> outputs = model.run(inputs);
  const DeviceCounters after = device.counters();
  if (model.waited().empty()) {
    EXPECT_EQ(after.submissions, before.submissions) << "something was evaluated while the model was walked";
    EXPECT_EQ(after.region_breaks, before.region_breaks);
    EXPECT_EQ(after.host_evaluations, before.host_evaluations);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::string path = (set / ("output_" + std::to_string(i) + ".pb")).string();
    if (!std::filesystem::exists(path)) continue;
    expect_output(model, outputs[i], read_stored(path, model.outputs()[i]), "output " + std::to_string(i));
  }
  if (device.id() != "reference:0") {
    EXPECT_EQ(device.counters().host_evaluations, before.host_evaluations);
  }
}

void run_case(const OnnxCase& c, DeviceContext& device) {
  onnx::LoadOptions options;
  options.device = &device;
  const onnx::Model model = onnx::load(c.folder + "/model.onnx", options);
  int sets = 0;
  for (const auto& entry : std::filesystem::directory_iterator(c.folder)) {
    if (!entry.is_directory()) continue;
    ++sets;
    run_set(model, entry.path(), device);
  }
  EXPECT_GT(sets, 0);
}

// Whether the case fails, without failing the test.
std::string failure_of(const OnnxCase& c, DeviceContext& device) {
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    try {
      run_case(c, device);
    } catch (const std::exception& error) {
      return error.what();
    }
  }
  for (int i = 0; i < failures.size(); ++i) {
    if (failures.GetTestPartResult(i).failed()) return failures.GetTestPartResult(i).message();
  }
  return "";
}

// A device without f64, or without its functions, refuses them by name: some of Debian's data is in f64.
bool lacks_f64(const std::string& failure, const Caps& caps) {
  return (!caps.f64 && failure.find("(caps.f64)") != std::string::npos) ||
         (!caps.f64_math && failure.find("(caps.f64_math)") != std::string::npos);
}

class OnnxCases : public testing::TestWithParam<std::tuple<const char*, size_t>> {};

TEST_P(OnnxCases, Values) {
  const auto [id, number] = GetParam();
  const OnnxCase& c = onnx_cases()[number];
  DeviceContext& device = heddle::device(id);
  const std::string failure = failure_of(c, device);
  const std::string name = c.group + "/" + c.name;
  if (cases_of_others()) {
    EXPECT_EQ(failure, "") << name;
    return;
  }
  if (lacks_f64(failure, device.caps())) return;
  const bool expected =
      not_run().count(name) != 0 || (device.id() == "reference:0" && not_run_on_reference().count(name) != 0);
  if (!expected)
    EXPECT_EQ(failure, "") << name;
  else
    EXPECT_NE(failure, "") << name << " runs: take it out of tests/onnx/not_run.inc";
}

std::vector<size_t> numbers(size_t step) {
  std::vector<size_t> all;
  for (size_t i = 0; i < onnx_cases().size(); i += step) all.push_back(i);
  return all;
}

std::string name_of(const testing::TestParamInfo<std::tuple<const char*, size_t>>& info) {
  const OnnxCase& c = onnx_cases()[std::get<1>(info.param)];
  std::string name = c.group + "_" + c.name;
  for (char& letter : name) letter = std::isalnum(static_cast<unsigned char>(letter)) ? letter : '_';
  return name;
}

std::vector<const char*> device_if_there(const char* id) {
  return test::available(id) ? std::vector{id} : std::vector<const char*>{};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OnnxCases);
INSTANTIATE_TEST_SUITE_P(reference, OnnxCases,
                         testing::Combine(testing::ValuesIn(device_if_there("reference:0")),
                                          testing::ValuesIn(numbers(1))),
                         name_of);
INSTANTIATE_TEST_SUITE_P(opencl, OnnxCases,
                         testing::Combine(testing::ValuesIn(device_if_there("opencl:0")),
                                          testing::ValuesIn(numbers(1))),
                         name_of);
INSTANTIATE_TEST_SUITE_P(vulkan, OnnxCases,
                         testing::Combine(testing::ValuesIn(device_if_there("vulkan:0")),
                                          testing::ValuesIn(numbers(7))),
                         name_of);

// The row of the issue: what is left out is named, and little.
TEST(OnnxCaseTable, NamesCasesAndFewOfThem) {
  if (onnx_cases().empty() || cases_of_others()) GTEST_SKIP() << "libonnx-testdata is not installed, or not looked at";
  std::map<std::string, int> runs;
  std::map<std::string, bool> known;
  for (const OnnxCase& c : onnx_cases()) {
    known[c.group + "/" + c.name] = true;
    const std::string name = c.group + "/" + c.name;
    runs[c.group] += not_run().count(name) == 0 && not_run_on_reference().count(name) == 0;
  }
  for (const auto& [name, why] : not_run()) {
    EXPECT_TRUE(known[name]) << name;
    EXPECT_FALSE(why.empty()) << name;
  }
  EXPECT_GE(runs["node"], 850);
  EXPECT_GE(runs["pytorch-converted"], 82);
  EXPECT_GE(runs["pytorch-operator"], 35);
  EXPECT_GE(runs["simple"], 7);
}

}  // namespace
}  // namespace heddle::tests
