// auto_shard against the function itself, on meshes of data and tensor parallelism: values and gradients; each rule
// with its inputs cut in every way; what is refused.
#include "heddle/distributed/auto_shard.h"

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/distributed/collectives.h"
#include "tests/distributed/auto_shard_cases.h"
#include "tests/distributed/values_test.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::distributed {
namespace {

using test::before;
using test::drawn;
using test::List;
using test::mlp_loss;
using test::mlp_parameters;
using test::on_reference;
using test::with_gradients;
using tests::expect_error;

// x, gain, wq, wk, wv, wo: four heads of two, behind a norm, with a residual.
Tensor attention_loss(const List& in) {
  const int64_t batch = in[0].dim(0), length = in[0].dim(1), size = 2;
  const Tensor centred = in[0] - mean(in[0], {2}, true);
  const Tensor normal = centred * rsqrt(mean(square(centred), {2}, true) + 1e-5) * in[1];
  const auto heads = [&](const Tensor& w) {
    const Tensor projected = linear(normal, w, {});
    return permute(reshape(projected, {batch, length, w.dim(0) / size, size}), {0, 2, 1, 3});
  };
  const Tensor q = heads(in[2]), k = heads(in[3]), v = heads(in[4]);
  const Tensor mixed = permute(matmul(softmax(matmul(q, transpose(k, 2, 3)) * 0.7), v), {0, 2, 1, 3});
  const Tensor joined = reshape(mixed, {batch, length, in[2].dim(0)});
  return mean(square(in[0] + linear(joined, in[5], {})));
}
const std::vector<Spec> attention_parameters = {Spec{}, Spec{{"tp"}}, Spec{{"tp"}}, Spec{{"tp"}}, Spec{{{}, "tp"}}};

// The Specs without an axis.
std::vector<Spec> without(const std::vector<Spec>& specs, const std::string& axis) {
  std::vector<Spec> left = specs;
  for (Spec& spec : left) {
    for (AxisNames& dim : spec.dims) {
      std::vector<std::string> names = dim.list();
      std::erase(names, axis);
      dim = AxisNames(names);
    }
  }
  return left;
}

class AutoShard : public test::ValuesTest {
 protected:
  List mlp() const {
    return {numbers({8, 6}, 1), numbers({12, 6}, 2), numbers({12}, 3), numbers({4, 12}, 4), numbers({4}, 5)};
  }
  List attention() const {
    return {numbers({4, 5, 6}, 1), numbers({6}, 2),    numbers({8, 6}, 3),
            numbers({8, 6}, 4),    numbers({8, 6}, 5), numbers({6, 8}, 6)};
  }
  void expect_whole(const ShardFunction& f, const List& in, const std::vector<Spec>& parameters) {
    const List wanted = f(in);
    std::vector<const char*> meshes = {"dp=2,tp=2"};
    if (exact()) meshes.insert(meshes.end(), {"dp=2", "tp=2"});
    for (const char* text : meshes) {
      SCOPED_TRACE(text);
      const Mesh mesh = Mesh::parse(text, std::string(text).size() > 4 ? 4 : 2);
      std::vector<Spec> specs = before(Spec{{"dp"}}, parameters);
      for (const char* axis : {"dp", "tp"}) {
        if (std::string(text).find(axis) == std::string::npos) specs = without(specs, axis);
      }
      const List got = auto_shard(f, mesh, specs, before(Spec{}, {specs.begin() + 1, specs.end()}))(in);
      for (size_t i = 0; i < wanted.size(); ++i) expect_same(got[i], wanted[i], "result " + std::to_string(i));
    }
  }
};

TEST_P(AutoShard, AnMlpIsTheWholeOne) { expect_whole(with_gradients(mlp_loss), mlp(), mlp_parameters); }

// Where nothing has to be compiled.
class AutoShardExact : public AutoShard {};
TEST_P(AutoShardExact, AttentionIsTheWholeOne) {
  expect_whole(with_gradients(attention_loss), attention(), attention_parameters);
}

INSTANTIATE_TEST_SUITE_P(Reference, AutoShardExact, testing::Values("reference:0"), tests::device_test_name);
INSTANTIATE_TEST_SUITE_P(Devices, AutoShard, testing::ValuesIn(heddle::test::value_devices()), tests::device_test_name);

// Each function with its argument cut along the first, the second or no axis, by two axes where there are.
TEST(AutoShardRules, AreTheFunctions) {
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&, const Tensor&)>>> functions = {
      {"elementwise", [](const Tensor& x, const Tensor& y) { return x * y + where(x > 0, y, 2); }},
      {"sum", [](const Tensor& x, const Tensor&) { return sum(x, {1}) * 2; }},
      {"max", [](const Tensor& x, const Tensor&) { return max(x, {0}) + min(x); }},
      {"argmax", [](const Tensor& x, const Tensor&) { return argmax(x, 1); }},
      {"product", [](const Tensor& x, const Tensor&) { return prod(x, {1}); }},
      {"permute",
       [](const Tensor& x, const Tensor& y) {
         return permute(x, {1, 0, 2}) + permute(y, {1, 0, 2});
       }},
      {"merge",
       [](const Tensor& x, const Tensor&) {
         return reshape(x, {16, 8});
       }},
      {"split",
       [](const Tensor& x, const Tensor&) {
         return reshape(x, {2, 2, 4, 2, 4});
       }},
      {"flatten", [](const Tensor& x, const Tensor&) { return flatten(x) * 3; }},
      {"slice", [](const Tensor& x, const Tensor&) { return slice(x, 1, {.start = 1, .stop = 3}); }},
      {"pad",
       [](const Tensor& x, const Tensor&) {
         return pad(x, {{0, 0}, {1, 0}, {0, 0}});
       }},
      {"flip", [](const Tensor& x, const Tensor&) { return flip(x, {0}); }},
      {"concat",
       [](const Tensor& x, const Tensor& y) {
         return concat({x, y}, 1);
       }},
      {"expand",
       [](const Tensor& x, const Tensor& y) {
         return x - mean(y, {0, 1}, true);
       }},
      {"softmax", [](const Tensor& x, const Tensor&) { return softmax(x, 1); }},
      {"logsumexp", [](const Tensor& x, const Tensor&) { return logsumexp(x, {1}); }},
      {"cumsum", [](const Tensor& x, const Tensor&) { return cumsum(x, 1); }},
      {"sort", [](const Tensor& x, const Tensor&) { return sort(x, 0).values; }},
      {"matmul", [](const Tensor& x, const Tensor& y) { return matmul(x, transpose(y, 1, 2)); }},
      {"take",
       [](const Tensor& x, const Tensor& y) { return take(x, cast(clamp(round(y * 3), 0, 3), DType::i32), 1); }},
      {"gather",
       [](const Tensor& x, const Tensor& y) { return gather(x, 0, cast(clamp(round(y * 3), 0, 3), DType::i32)); }},
      {"a body without a rule", [](const Tensor& x, const Tensor& y) { return scatter_add(x, 1, argsort(y, 1), y); }}};
  const std::vector<Spec> cuts = {Spec{}, Spec{{"a"}}, Spec{{{}, "a"}}, Spec{{"b", "a"}},
                                  Spec{{{}, AxisNames{"a", "b"}}}};
  const Mesh mesh({{"a", 2}, {"b", 2}}, 4);
  const Tensor x = on_reference({4, 4, 8}, 1), y = on_reference({4, 4, 8}, 2);
  for (const auto& [name, function] : functions) {
    const std::vector<double> wanted = function(x, y).to_doubles();
    for (size_t i = 0; i < cuts.size(); ++i) {
      for (const size_t j : {size_t{0}, (i + 2) % cuts.size()}) {
        const Tensor got = auto_shard([&f = function](const List& in) { return List{f(in[0], in[1])}; }, mesh,
                                      {cuts[i], cuts[j]}, {Spec{}})({x, y})[0];
        const std::vector<double> values = got.to_doubles();
        ASSERT_EQ(values.size(), wanted.size()) << name;
        for (size_t e = 0; e < values.size(); ++e)
          ASSERT_NEAR(values[e], wanted[e], 1e-12) << name << ", cut " << i << " and " << j << ", element " << e;
      }
    }
  }
}

TEST(AutoShardRules, EmbeddingsAndTheirLosses) {
  const Tensor table = on_reference({6, 4}, 1), head = on_reference({6, 4}, 2);
  DeviceContext& d = heddle::device("reference:0");
  const Tensor tokens = Tensor::from_vector(std::vector<int32_t>{0, 5, 3, 3}, Shape{4}, &d);
  const auto loss = [](const List& in) {
    return cross_entropy(matmul(tanh(embedding(in[1], in[0])), transpose(in[2])), in[0]);
  };
  const ShardFunction f = with_gradients(loss);
  const List wanted = f({tokens, table, head});
  const List got = auto_shard(f, Mesh({{"dp", 2}, {"tp", 2}}, 4), {Spec{{"dp"}}, Spec{{{}, "tp"}}, Spec{{"tp"}}},
                              {Spec{}, Spec{{{}, "tp"}}, Spec{{"tp"}}})({tokens, table, head});
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::vector<double> a = got[i].to_doubles(), b = wanted[i].to_doubles();
    ASSERT_EQ(a.size(), b.size());
    for (size_t e = 0; e < a.size(); ++e) EXPECT_NEAR(a[e], b[e], 1e-12) << i << " at " << e;
  }
}

TEST(AutoShardErrors, NameWhatCannotBe) {
  const Mesh mesh({{"a", 2}, {"b", 2}}, 4);
  const Tensor x = on_reference({4, 3}, 1);
  const auto run = [&](const Spec& in, const Spec& out, const std::function<Tensor(const Tensor&)>& f) {
    auto_shard([f](const List& given) { return List{f(given[0])}; }, mesh, {in}, {out})({x});
  };
  const auto same = [](const Tensor& t) { return t * 2; };
  expect_error<ShapeError>(
      [&] {
        run(Spec{}, Spec{{{}, "a"}}, same);
      },
      {"[auto_shard] 2 ranks do not divide axis 1 of (4, 3)"});
  expect_error<ValueError>(
      [&] {
        run(Spec{{AxisNames{"b", "a"}}}, Spec{}, same);
      },
      {"in the order of the mesh; 'a' does not"});
  expect_error<ValueError>([&] { run(Spec{{"a"}}, Spec{}, [](const Tensor& t) { return psum(t, "a"); }); },
                           {"[auto_shard] 'psum'", "loops, assignments and collectives"});
  expect_error<ValueError>(
      [&] {
        run(Spec{{"a"}}, Spec{}, [](const Tensor& t) {
          t.to_doubles();
          return t;
        });
      },
      {"example"});
  expect_error<ShapeError>([&] { run(Spec{}, Spec{}, [](const Tensor& t) {
                                   return constrain(t, Spec{{{}, "b"}});
                                 }); },
                           {"2 ranks do not divide axis 1"});
  expect_error<AxisError>([&] { run(Spec{}, Spec{}, [](const Tensor& t) { return constrain(t, Spec{{"c"}}); }); },
                          {"[constrain] the mesh a=2,b=2 has no axis 'c'"});
}

}  // namespace
}  // namespace heddle::distributed
