// The report on a model, and models as functions: compiled, differentiated, with functions of their own and the
// caller's.
#include "heddle/onnx/import.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/onnx/op_page.h"
#include "heddle/onnx/parse.h"
#include "tests/onnx/parsed.h"
#include "tests/onnx/wire.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

using onnx::Model;
using ports::x;
using ports::y;

Model made(const std::string& bytes, onnx::LoadOptions options = {}) {
  return Model(parsed(bytes), std::move(options));
}
Tensor input(const std::vector<float>& values) {
  return Tensor::from_vector(values, {static_cast<int64_t>(values.size())});
}
std::vector<float> run(const Model& model, const std::vector<float>& values) {
  return model.call({input(values)})[0].to_vector<float>();
}
using Floats = std::vector<float>;

// ---- the report

TEST(OnnxReport, NamesAllNodesThatCannotRun) {
  const Wire branch = graph({node("Mystery", {"x"}, {"m"}, {}, "inside")}, {}, {port("m", f32, {2})});
  const Wire other = graph({node("Identity", {"x"}, {"i"})}, {}, {port("i", f32, {2})});
  const std::string bytes = model(
      graph(
          {node("Mystery", {"x"}, {"a"}, {}, "one"), node("Mystery", {"a"}, {"b"}, {}, "two"),
           node("Softmax", {"b"}, {"s"}, {attribute("axis", int64_t{0}), attribute("temperature", int64_t{3})}, "soft"),
           node("Gelu", {"s"}, {"g"}, {}, "early"), node("Thing", {"g"}, {"t"}, {}, "foreign", "com.example"),
           node("If", {"c"}, {"y"}, {attribute_graph("then_branch", branch), attribute_graph("else_branch", other)},
                "choice")},
          {x, port("c", boolean, {})}, {y}),
      17, {}, {opset(1, "com.example")});
  const onnx::Report report = onnx::report_on(parsed(bytes));
  EXPECT_FALSE(report.runs());
  EXPECT_EQ(report.nodes, 8u);
  ASSERT_EQ(report.unsupported.size(), 4u);
  const auto& [gelu, mystery, softmax, thing] =
      std::tie(report.unsupported[0], report.unsupported[1], report.unsupported[2], report.unsupported[3]);
  EXPECT_EQ(gelu.op, "Gelu");
  EXPECT_NE(gelu.needs.find("opset 17"), std::string::npos) << gelu.needs;
  EXPECT_EQ(mystery.nodes, (std::vector<std::string>{"one", "two", "inside"}));
  EXPECT_EQ(mystery.opset, 17);
  EXPECT_NE(softmax.needs.find("temperature"), std::string::npos) << softmax.needs;
  EXPECT_EQ(thing.op, "com.example.Thing");
  EXPECT_NE(thing.needs.find("CustomOps"), std::string::npos) << thing.needs;
  expect_error<onnx::Unsupported>([&] { made(bytes); },
                                  {"cannot run", "3 nodes: one, two, inside", "soft", "early", "foreign"});
}

TEST(OnnxReport, ValuesOfAttributesAndTypesCount) {
  const auto needs = [](const std::string& bytes) {
    const onnx::Report report = onnx::report_on(parsed(bytes));
    return report.runs() ? "" : report.unsupported[0].needs;
  };
  EXPECT_NE(needs(model(graph({node("Cast", {"x"}, {"y"}, {attribute("to", int64_t{8})})}, {x}, {y}))).find("to = 8"),
            std::string::npos);
  EXPECT_EQ(needs(model(graph({node("Cast", {"x"}, {"y"}, {attribute("to", int64_t{6})})}, {x}, {y}))), "");
  EXPECT_NE(needs(model(graph({node("Identity", {"t"}, {"y"})}, {port("t", text_type, {2})}, {y}))).find("string"),
            std::string::npos);
  EXPECT_NE(needs(model(graph({node("Relu", {"x"}, {"y"})}, {x}, {y}), 99)).find("opset 99"), std::string::npos);
  EXPECT_NE(needs(model(graph({node("Relu", {"x"}, {"y"})}, {x}, {y}), 4)).find("opset"), std::string::npos);
  EXPECT_NE(needs(model(graph({node("Resize", {"x", "", "", "s"}, {"y"}, {attribute("mode", std::string("magic"))})},
                              {x, port("s", i64, {1})}, {y})))
                .find("magic"),
            std::string::npos);
}

TEST(OnnxReport, NodesSizedByValuesAreNamed) {
  const onnx::Report report = onnx::report_on(
      parsed(model(graph({node("NonZero", {"x"}, {"y"}, {}, "where")}, {x}, {port("y", i64, {1, -1})}))));
  EXPECT_TRUE(report.runs());
  EXPECT_EQ(report.waits, (std::vector<std::string>{"where"}));
}

// ---- calls

TEST(OnnxImport, InputsAreChecked) {
  const Model m = made(model(graph({node("Add", {"a", "b"}, {"y"})}, {port("a", f32, {-1, 3}), port("b", f32, {-1, 3})},
                                   {port("y", f32, {-1, 3})})));
  const Tensor a = ones({2, 3}), b = ones({4, 3});
  EXPECT_EQ(m({{"a", a}, {"b", a}}).at("y").to_vector<float>(), Floats(6, 2));
  expect_error<ShapeError>([&] { m.call({a, b}); }, {"N1", "2", "4"});
  expect_error<ShapeError>([&] { m.call({ones({2, 4}), a}); }, {"input a", "(2, 4)"});
  expect_error<DTypeError>([&] { m.call({a, cast(a, DType::i32)}); }, {"input b", "int32"});
  expect_error<ValueError>([&] { m.call({a}); }, {"input b is missing"});
  expect_error<ValueError>([&] { m({{"a", a}, {"c", a}}); }, {"input b is missing"});
}

// The arithmetic of shapes needs no device: nothing is submitted, and a compiled call replays.
TEST(OnnxImport, ShapesAreFoldedAndCallsCompile) {
  const Wire one = tensor("one", i64, {1}, std::vector<int64_t>{1}),
             minus = tensor("minus", i64, {1}, std::vector<int64_t>{-1}),
             w = tensor("w", f32, {4, 4}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16});
  const Model m = made(
      model(graph({node("Shape", {"x"}, {"s"}), node("Gather", {"s", "one"}, {"n"}), node("Mul", {"n", "one"}, {"n1"}),
                   node("Concat", {"minus", "n1"}, {"t"}, {attribute("axis", int64_t{0})}),
                   node("Reshape", {"x", "t"}, {"r"}), node("MatMul", {"r", "w"}, {"y"})},
                  {port("x", f32, {-1, 4})}, {port("y", f32, {-1, 4})}, {one, minus, w})));
  const Tensor in = ones({3, 4});
  DeviceContext& device = default_device();
  const uint64_t before = device.counters().submissions;
  const Tensor out = m.call({in})[0];
  EXPECT_EQ(device.counters().submissions, before);
  EXPECT_TRUE(m.waited().empty());
  const Floats wanted{28, 32, 36, 40, 28, 32, 36, 40, 28, 32, 36, 40};
  EXPECT_EQ(out.to_vector<float>(), wanted);
  const auto fast = compile([&](const Tensor& t) { return m.call({t})[0]; });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fast(in).to_vector<float>(), wanted);
  if (default_device().caps().target != Target::none) EXPECT_GT(fast.stats().replayed, 0u) << fast.stats().refusal;
}

// "?" says that a size is not known: it ties no others.
TEST(OnnxImport, SizesThatAreCalledAQuestionMarkMayDiffer) {
  const Model m = made(model(
      graph({node("Relu", {"x"}, {"y"})}, {port("x", f32, {unnamed, unnamed})}, {port("y", f32, {unnamed, unnamed})})));
  EXPECT_EQ(m.call({ones({2, 3})})[0].shape(), (Shape{2, 3}));
}

// Weights that nodes cut, put together and turn, too many for the arithmetic of shapes: made once, so a call reads the
// same tensors as the call before. What would grow (a cast to doubles) is left to the device.
TEST(OnnxImport, WeightsThatNodesMoveAreMadeOnce) {
  constexpr int64_t rows = 300, columns = 250;
  Floats values(rows * columns);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 97) - 48;
  const auto place = [](const std::string& name, int64_t at) {
    return tensor(name, i64, {1}, std::vector<int64_t>{at});
  };
  const Wire w = tensor("w", f32, {rows, columns}, values);
  const Model m = made(model(
      graph({node("Slice", {"w", "zero", "split"}, {"low"}), node("Slice", {"w", "split", "rows"}, {"high"}),
             node("Concat", {"high", "low"}, {"turned"}, {attribute("axis", int64_t{0})}),
             node("Transpose", {"turned"}, {"t"}), node("Cast", {"w"}, {"wide"}, {attribute("to", int64_t{11})}),
             node("Gather", {"wide", "last"}, {"row"}), node("Cast", {"row"}, {"r"}, {attribute("to", int64_t{1})}),
             node("MatMul", {"x", "t"}, {"p"}), node("MatMul", {"r", "t"}, {"q"}), node("Add", {"p", "q"}, {"y"})},
            {port("x", f32, {1, columns})}, {port("y", f32, {1, rows})},
            {w, place("zero", 0), place("split", 100), place("rows", rows), place("last", -1)})));
  Floats wanted(rows);
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t from = (i + 100) % rows;
    double sum = 0;
    for (int64_t j = 0; j < columns; ++j) {
      const auto last = static_cast<size_t>((rows - 1) * columns + j);
      sum += (1 + values[last]) * values[static_cast<size_t>(from * columns + j)];
    }
    wanted[static_cast<size_t>(i)] = static_cast<float>(sum);
  }
  const Tensor in = ones({1, columns});
  const auto fast = compile([&](const Tensor& t) { return m.call({t})[0]; });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(fast(in).to_vector<float>(), wanted);
  if (default_device().caps().target != Target::none) EXPECT_GT(fast.stats().replayed, 0u) << fast.stats().refusal;
}

TEST(OnnxImport, GradientsFlow) {
  const Model m = made(model(graph({node("Mul", {"x", "x"}, {"y"})}, {x}, {y})));
  Tensor in = input({3, -2});
  in.set_requires_grad();
  backward(sum(m.call({in})[0]));
  EXPECT_EQ(in.grad().to_vector<float>(), (Floats{6, -4}));
}

TEST(OnnxImport, FunctionsOfTheFileAreExpanded) {
  // scaled(a; factor) = LeakyRelu(a, alpha = factor), called with and without its default.
  const Wire body = node("LeakyRelu", {"a"}, {"b"}, {attribute_ref("alpha", "factor", 1)});
  const Wire function = Wire()
                            .text(1, "scaled")
                            .text(4, "a")
                            .text(5, "b")
                            .text(6, "factor")
                            .message(7, body)
                            .message(9, opset(16))
                            .text(10, "own");
  const Model m =
      made(model(graph({node("scaled", {"x"}, {"y"}, {attribute_real("factor", 0.5f)}, "", "own")}, {x}, {y}), 17,
                 {function}, {opset(1, "own")}));
  EXPECT_EQ(run(m, {-4, 4}), (Floats{-2, 4}));
  const Model usual =
      made(model(graph({node("scaled", {"x"}, {"y"}, {}, "", "own")}, {x}, {y}), 17, {function}, {opset(1, "own")}));
  EXPECT_FLOAT_EQ(run(usual, {-4, 4})[0], -0.04f);
}

TEST(OnnxImport, OtherDomainsAreTheCallers) {
  onnx::LoadOptions options;
  options.custom[{"com.example", "Thing"}] = [](const onnx::NodeView& view, const std::vector<Tensor>& inputs) {
    return std::vector{inputs[0] * static_cast<double>(view.integer("times"))};
  };
  const Model m =
      made(model(graph({node("Thing", {"x"}, {"y"}, {attribute("times", int64_t{3})}, "", "com.example")}, {x}, {y}),
                 17, {}, {opset(1, "com.example")}),
           options);
  EXPECT_EQ(run(m, {1, 2}), (Floats{3, 6}));
}

std::string choice() {
  const Wire yes = graph({node("Neg", {"x"}, {"n"})}, {}, {port("n", f32, {2})});
  const Wire no = graph({node("Identity", {"x"}, {"i"})}, {}, {port("i", f32, {2})});
  return model(
      graph({node("If", {"c"}, {"y"}, {attribute_graph("then_branch", yes), attribute_graph("else_branch", no)})},
            {x, port("c", boolean, {})}, {y}));
}

// A condition that only the device knows is one graph; known ones take their branch.
TEST(OnnxImport, BranchesFollowTheCondition) {
  const Model m = made(choice());
  for (const bool c : {true, false}) {
    const Tensor flag = full({}, c, DType::boolean);
    EXPECT_EQ(m.call({input({1, 2}), flag})[0].to_vector<float>(), c ? (Floats{-1, -2}) : (Floats{1, 2}));
  }
  EXPECT_TRUE(m.waited().empty());
}

// while (sum(v) < limit) v += 1, at most 100 times; the count of trips is a constant, the condition the device's.
TEST(OnnxImport, LoopsRunOnTheDevice) {
  const Wire body = graph({node("Add", {"v", "step"}, {"next"}),
                           node("ReduceSum", {"next"}, {"total"}, {attribute("keepdims", int64_t{0})}),
                           node("Less", {"total", "limit"}, {"go"})},
                          {port("i", i64, {}), port("go_in", boolean, {}), port("v", f32, {2})},
                          {port("go", boolean, {}), port("next", f32, {2})});
  const Wire trips = tensor("trips", i64, {}, std::vector<int64_t>{100}),
             step = tensor("step", f32, {}, std::vector<float>{1}),
             limit = tensor("limit", f32, {}, std::vector<float>{11});
  const Model m = made(model(graph({node("Loop", {"trips", "", "x"}, {"y"}, {attribute_graph("body", body)})}, {x}, {y},
                                   {trips, step, limit})));
  EXPECT_EQ(run(m, {0, 1}), (Floats{5, 6}));
}

// 200 iterations with rows: one scan, not 200 copies of the body.
TEST(OnnxImport, LongLoopsAreScans) {
  const Wire body = graph(
      {node("Add", {"v", "v0"}, {"next"}), node("Identity", {"next"}, {"row"}), node("Identity", {"go_in"}, {"go"})},
      {port("i", i64, {}), port("go_in", boolean, {}), port("v", f32, {2})},
      {port("go", boolean, {}), port("next", f32, {2}), port("row", f32, {2})});
  const Wire trips = tensor("trips", i64, {}, std::vector<int64_t>{200}),
             v0 = tensor("v0", f32, {}, std::vector<float>{1});
  const Model m = made(model(graph({node("Loop", {"trips", "", "x"}, {"y", "rows"}, {attribute_graph("body", body)})},
                                   {x}, {y, port("rows", f32, {200, 2})}, {trips, v0})));
  const std::vector<Tensor> out = m.call({input({0, 5})});
  EXPECT_EQ(out[0].to_vector<float>(), (Floats{200, 205}));
  const Floats rows = out[1].to_vector<float>();
  ASSERT_EQ(rows.size(), 400u);
  EXPECT_EQ(rows[0], 1);
  EXPECT_EQ(rows[399], 205);
}

TEST(OnnxImport, ListsThatAreTooShortAreErrors) {
  // Start, limit and step are inputs of one element; here they are floats, so that nothing is folded on the host.
  const auto ranged = [](const std::vector<float>& start, const std::vector<float>& step) {
    const auto size = [](const std::vector<float>& v) { return static_cast<int64_t>(v.size()); };
    made(model(graph({node("Range", {"a", "b", "c"}, {"y"})}, {}, {port("y", f32, {-1})},
                     {tensor("a", f32, {size(start)}, start), tensor("b", f32, {1}, std::vector<float>{1e30f}),
                      tensor("c", f32, {size(step)}, step)})))
        .call({});
  };
  expect_error<ValueError>([&] { ranged({}, {1}); }, {"[onnx] node Range(y)", "fewer elements"});
  expect_error<ValueError>([&] { ranged({0}, {}); }, {"[onnx] node Range(y)", "fewer elements"});
  expect_error<ValueError>([&] { ranged({0}, {1}); }, {"[onnx] node Range(y)", "more elements than any memory"});
  // A condition without an element.
  const Wire inner = graph({node("Identity", {"x"}, {"i"})}, {}, {port("i", f32, {2})});
  expect_error<ValueError>(
      [&] {
        made(model(graph({node("If", {"c"}, {"y"},
                               {attribute_graph("then_branch", inner), attribute_graph("else_branch", inner)})},
                         {x}, {y}, {tensor("c", boolean, {0}, "")})))
            .call({input({1, 2})});
      },
      {"node If(y)", "fewer elements"});
}

TEST(OnnxImport, UnsignedIntegersKeepTheirRange) {
  // uint16 and uint32 are held in wider types and wrap all the same.
  for (const int type : {4, 12}) {
    const Model m =
        made(model(graph({node("Add", {"a", "a"}, {"y"})}, {port("a", type, {1})}, {port("y", type, {1})})));
    const auto t = static_cast<onnx::Type>(type);
    const int64_t most = onnx::highest(t);
    const onnx::Value value = m.given(onnx::HostTensor::of_ints(t, Shape{1}, {most}));
    EXPECT_EQ(m.tensor(m.run({value})[0]).to_vector<int64_t>(), (std::vector<int64_t>{most - 1}));
  }
}

TEST(OnnxPage, DocsAreFresh) {
  std::ifstream in(std::string(HEDDLE_SOURCE_DIR) + "/docs/onnx.md");
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), onnx::op_page()) << "heddle import --ops > docs/onnx.md mends it";
}

}  // namespace
}  // namespace heddle::tests
