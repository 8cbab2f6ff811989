// Readers of models of other makers: ONNX, and the report on one.
#include "heddle/onnx/parse.h"
#include "heddle/onnx/report.h"
#include "tests/fuzz/target.h"
#include "tests/onnx/wire.h"

namespace heddle::fuzz {
namespace {

using namespace tests;

std::string bytes_of_floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

void onnx_model(Bytes input) {
  const onnx::ModelFile model = onnx::parse_model(text_of(input), "fuzz", {scratch_folder()});
  const onnx::Report report = onnx::report_on(model);
  size_t named = 0;
  for (const onnx::UnsupportedOp& op : report.unsupported) named += op.nodes.size();
  require(named <= report.nodes, "onnx: more nodes are reported than there are");
}

void onnx_tensor(Bytes input) {
  const onnx::HostTensor tensor = onnx::parse_tensor(text_of(input), "fuzz");
  if (!tensor.bytes || onnx::is_float(tensor.type)) return;
  require(*onnx::HostTensor::of_ints(tensor.type, tensor.shape, tensor.ints()).bytes == *tensor.bytes ||
              tensor.type == onnx::Type::boolean,
          "onnx: a tensor differs when it is made again");
}

std::vector<std::string> model_seeds() {
  const Wire weight = tensor("w", f32, {2, 2}, bytes_of_floats({1, 2, 3, 4}));
  const std::string plain = model(graph({node("MatMul", {"x", "w"}, {"h"}), node("Relu", {"h"}, {"y"}, {}, "relu")},
                                        {port("x", f32, {-1, 2})}, {port("y", f32, {-1, 2})}, {weight}));
  const Wire branch = graph({node("Neg", {"x"}, {"n"})}, {}, {port("n", f32, {2})});
  const Wire other = graph({node("Identity", {"x"}, {"i"})}, {}, {port("i", f32, {2})});
  const std::string nested = model(
      graph({node("If", {"c"}, {"y"}, {attribute_graph("then_branch", branch), attribute_graph("else_branch", other)})},
            {port("c", boolean, {}), port("x", f32, {2})}, {port("y", f32, {2})}));
  Wire function = Wire()
                      .text(1, "twice")
                      .text(4, "a")
                      .text(5, "b")
                      .message(7, node("Add", {"a", "a"}, {"b"}))
                      .message(9, opset(17))
                      .text(10, "own");
  const std::string called =
      model(graph({node("twice", {"x"}, {"y"}, {}, "", "own")}, {port("x", f32, {2})}, {port("y", f32, {2})}), 17,
            {function}, {opset(1, "own")});
  Wire outside = tensor("w", f32, {2}, "");
  outside.number(14, 1).message(13, Wire().text(1, "location").text(2, "weights.bin"));
  const std::string external =
      model(graph({node("Add", {"x", "w"}, {"y"})}, {port("x", f32, {2})}, {port("y", f32, {2})}, {outside}));
  return {plain, nested, called, external};
}

std::vector<std::string> tensor_seeds() {
  return {tensor("t", f32, {2, 2}, bytes_of_floats({1, 2, 3, 4})).bytes(),
          tensor("n", i64, {2}, std::vector<int64_t>{-1, 5}).bytes(),
          Wire().number(1, 3).number(2, 6).text(5, std::string("\x01\x02\x03", 3)).bytes()};
}

}  // namespace

std::vector<Target> onnx_targets() {
  return {
      {"onnx",
       onnx_model,
       model_seeds,
       {"Add", "If", "Loop", "axis", "ai.onnx", std::string_view("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x10", 10),
        "../weights.bin", "location"}},
      {"onnx_tensor",
       onnx_tensor,
       tensor_seeds,
       {std::string_view("\x08\x80\x80\x80\x80\x80\x80\x80\x80\x10", 10), std::string_view("\x10\x07", 2)}},
  };
}

}  // namespace heddle::fuzz
