// The catalogue (autograd/catalogue.inc) against the headers, and its columns against what the functions do with the
// stored cases.
#include "heddle/autograd/catalogue.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/node.h"
#include "tests/reference/functions.h"
#include "tests/reference/stored_cases.h"
#include "tests/support/public_headers.h"
#include "tests/support/reference_device.h"

namespace heddle::tests {
namespace {

const std::map<std::string, Declared>& declared() {
  static const auto all = declared_functions(HEDDLE_SOURCE_DIR);
  return all;
}

// Functions without stored cases, and the file whose tests compute them on every device. Most have no counterpart in
// PyTorch that is equal bit for bit (random numbers), or take functions.
const std::map<std::string_view, std::string_view>& elsewhere() {
  static const std::map<std::string_view, std::string_view> files{
      {"integer_quotient",
       "checks/op_cases.cpp"},  // these three are rows: op_cases.cpp makes their cases from the table
      {"shift_left", "checks/op_cases.cpp"},
      {"shift_right", "checks/op_cases.cpp"},
      {"uniform", "checks/op_cases_networks.cpp"},
      {"normal", "checks/op_cases_networks.cpp"},
      {"bernoulli", "checks/op_cases_networks.cpp"},
      {"dropout", "checks/op_cases_networks.cpp"},
      {"feature_dropout", "tests/unit/functions_nn_test.cpp"},
      {"randint", "tests/conformance/distributions_test.cpp"},
      {"randperm", "tests/conformance/distributions_test.cpp"},
      {"exponential", "tests/conformance/distributions_test.cpp"},
      {"gumbel", "tests/conformance/distributions_test.cpp"},
      {"laplace", "tests/conformance/distributions_test.cpp"},
      {"cauchy", "tests/conformance/distributions_test.cpp"},
      {"log_normal", "tests/conformance/distributions_test.cpp"},
      {"truncated_normal", "tests/conformance/distributions_test.cpp"},
      {"multinomial", "tests/conformance/distributions_test.cpp"},
      {"categorical", "tests/conformance/distributions_test.cpp"},
      {"gumbel_softmax", "tests/conformance/distributions_test.cpp"},
      {"gamma", "tests/conformance/distributions_test.cpp"},
      {"beta", "tests/conformance/distributions_test.cpp"},
      {"dirichlet", "tests/conformance/distributions_test.cpp"},
      {"chi_squared", "tests/conformance/distributions_test.cpp"},
      {"student_t", "tests/conformance/distributions_test.cpp"},
      {"poisson", "tests/conformance/distributions_test.cpp"},
      {"alpha_dropout", "tests/conformance/distributions_test.cpp"},
      {"feature_alpha_dropout", "tests/conformance/distributions_test.cpp"},
      {"logspace", "tests/unit/functions_arrange_test.cpp"},
      {"alibi_bias", "tests/unit/functions_arrange_test.cpp"},
      {"sinusoidal_positions", "tests/unit/functions_arrange_test.cpp"},
      {"fftfreq", "tests/unit/functions_fft_test.cpp"},
      {"rfftfreq", "tests/unit/functions_fft_test.cpp"},
      {"hann_window", "tests/unit/functions_fft_test.cpp"},
      {"hamming_window", "tests/unit/functions_fft_test.cpp"},
      {"blackman_window", "tests/unit/functions_fft_test.cpp"},
      {"bartlett_window", "tests/unit/functions_fft_test.cpp"},
      {"cholesky_ex", "tests/unit/functions_linalg_test.cpp"},
      {"lu_factor", "checks/op_cases_linalg.cpp"},
      {"solve_ex", "tests/unit/functions_linalg_test.cpp"},
      {"inverse_ex", "tests/unit/functions_linalg_test.cpp"},
      {"matmul_packed", "tests/conformance/packed_matmul_test.cpp"},
      {"rounded_to_8_bits", "tests/conformance/packed_matmul_test.cpp"},
      {"unpack_blocks", "tests/conformance/packed_matmul_test.cpp"},
      {"scan", "tests/conformance/control_test.cpp"},
      {"cond", "tests/conformance/control_test.cpp"},
      {"while_loop", "tests/conformance/control_test.cpp"},
  };
  return files;
}

bool stored(std::string_view name) { return stored_cases().contains(std::string(name)); }

TEST(Catalogue, IsWhatTheHeadersDeclare) {
  EXPECT_GE(catalogue().size(), 250u);
  std::set<std::string> listed;
  for (const PublicFunction& f : catalogue()) {
    EXPECT_TRUE(listed.insert(std::string(f.name)).second) << f.name << " is listed twice";
    EXPECT_TRUE(declared().contains(std::string(f.name)))
        << f.name << " is listed in autograd/catalogue.inc, but no header declares it";
    EXPECT_FALSE(f.meaning.empty() || f.family.empty()) << f.name;
    EXPECT_EQ(f.derivative == Derivative::none, !f.why.empty()) << f.name;
    EXPECT_EQ(f.derivative == Derivative::none, f.inputs.empty()) << f.name;
  }
  for (const auto& [name, d] : declared())
    EXPECT_TRUE(listed.contains(name)) << d.header << " declares " << name
                                       << ": add its line to autograd/catalogue.inc";
}

TEST(Catalogue, FamiliesStandTogether) {
  std::set<std::string_view> closed;
  std::string_view now;
  for (const PublicFunction& f : catalogue()) {
    if (f.family == now) continue;
    EXPECT_TRUE(closed.insert(f.family).second) << f.family;
    now = f.family;
  }
}

TEST(Catalogue, DifferentiableInputsAreParameters) {
  for (const PublicFunction& f : catalogue()) {
    if (!declared().contains(std::string(f.name))) continue;
    std::set<std::string> names;
    for (const auto& form : declared().at(std::string(f.name)).forms) names.insert(form.begin(), form.end());
    for (const std::string_view input : f.inputs)
      EXPECT_TRUE(names.contains(std::string(input)))
          << f.name << " has no parameter " << input << ", but " << fmt::format("{}", fmt::join(names, ", "));
  }
}

TEST(Catalogue, EveryFunctionIsComputedOnEveryDevice) {
  for (const PublicFunction& f : catalogue()) {
    if (stored(f.name)) {
      EXPECT_TRUE(functions().contains(std::string(f.name))) << f.name;
      EXPECT_FALSE(elsewhere().contains(f.name)) << f.name << " has stored cases";
      continue;
    }
    ASSERT_TRUE(elsewhere().contains(f.name))
        << f.name << " has neither cases in tests/reference nor a test on every device";
    const std::string_view file = elsewhere().at(f.name);
    std::ifstream stream(HEDDLE_SOURCE_DIR "/" + std::string(file));
    std::stringstream text;
    text << stream.rdbuf();
    const bool row = file == "checks/op_cases.cpp" && f.row != nullptr && !f.row->dialect.empty();
    EXPECT_TRUE(row || text.str().find(f.name) != std::string::npos) << file << " does not name " << f.name;
  }
}

// ---- columns against behaviour, on the reference device: what is recorded is the same everywhere

// The first stored one that was not made from another.
const StoredCase& first_case(const PublicFunction& f) {
  const std::vector<StoredCase>& cases = stored_cases().at(std::string(f.name));
  return *std::find_if(cases.begin(), cases.end(), [](const StoredCase& c) { return c.kind.empty(); });
}

std::vector<Tensor> inputs_of(const StoredCase& c, const std::function<DType(size_t)>& type) {
  std::vector<Tensor> result;
  for (size_t k = 0; k < c.in.size(); ++k) {
    const Tensor values = Tensor::from_vector(std::vector<float>(c.inputs[k].values.begin(), c.inputs[k].values.end()),
                                              c.inputs[k].shape, &reference());
    result.push_back(stop_gradient(cast(values, type(k))));
  }
  return result;
}

bool has_fraction(const nlohmann::json& j) {
  if (j.is_number_float()) return std::floor(j.get<double>()) != j.get<double>();
  return j.is_structured() && std::any_of(j.begin(), j.end(), [](const auto& part) { return has_fraction(part); });
}
bool has_negative(const nlohmann::json& j) {
  if (j.is_number()) return j.get<double>() < 0;
  return j.is_structured() && std::any_of(j.begin(), j.end(), [](const auto& part) { return has_negative(part); });
}

// What docs/types.md says of a number beside a tensor: a fraction makes integers f32, a negative one u8 i32.
bool beside_numbers(DType got, DType expected, const StoredCase& c) {
  if (got == expected) return true;
  if (is_float(expected)) return false;
  return got == DType::f32 ? has_fraction(c.args) : got == DType::i32 && expected == DType::u8 && has_negative(c.args);
}

// Which inputs are to hold values of type t: the floating ones, where there are some; else the whole ones, else all.
bool holds_values(const StoredCase& c, size_t k, DType t) {
  const auto any_of = [&](bool (*test)(DType)) { return std::any_of(c.in.begin(), c.in.end(), test); };
  if (t == DType::boolean && c.in[0] == t && !any_of(&is_float)) return k == 0;  // as stored
  return any_of(&is_float) ? is_float(c.in[k]) : any_of(&is_integer) ? is_integer(c.in[k]) : true;
}

// Empty when the case does with values of type t what the column says.
std::string fault_of_type(const PublicFunction& f, const StoredCase& c, DType t) {
  const std::vector<Tensor> inputs = inputs_of(c, [&](size_t k) { return holds_values(c, k, t) ? t : c.in[k]; });
  const std::optional<DType> expected = result_type(f.types, t);
  try {
    const std::vector<Tensor> outputs = functions().at(std::string(f.name))(inputs, Arguments(c.args));
    if (!expected) return fmt::format("takes {}", name_of(t));
    const DType got = outputs.at(0).dtype();
    return beside_numbers(got, *expected, c)
               ? ""
               : fmt::format("gives {} for {}, not {}", name_of(got), name_of(t), name_of(*expected));
  } catch (const UserError& e) {
    if (expected) return fmt::format("refuses {}: {}", name_of(t), e.what());
    const bool wrapped = f.family == "Linear algebra";  // cases call other functions with their inputs first
    return dynamic_cast<const DTypeError*>(&e) != nullptr &&
                   (wrapped || std::string(e.what()).starts_with(fmt::format("[{}] ", f.name)))
               ? ""
               : e.what();
  }
}

TEST(Catalogue, TypesAreTrue) {
  for (const PublicFunction& f : catalogue()) {
    if (!stored(f.name) || f.types == TypeRule::asked || f.types == TypeRule::counts) continue;
    const std::vector<StoredCase>& cases = stored_cases().at(std::string(f.name));
    for (int i = 0; i < dtype_count; ++i) {
      // One case that does: another may have numbers that the dtype cannot hold (pad with 0.5).
      std::string fault;
      const bool some = std::any_of(cases.begin(), cases.end(), [&](const StoredCase& c) {
        return (fault = fault_of_type(f, c, static_cast<DType>(i))).empty();
      });
      EXPECT_TRUE(some) << f.name << " " << fault << "; its column says: " << describe(f.types);
    }
  }
}

// Empty when the case does within an AutocastScope what the column says, with floating values of type t.
std::string fault_of_autocast(const PublicFunction& f, const StoredCase& c, DType t) {
  const std::vector<Tensor> inputs = inputs_of(c, [&](size_t k) { return is_float(c.in[k]) ? t : c.in[k]; });
  const DType expected = f.autocast == Autocast::low ? DType::f16 : f.autocast == Autocast::f32 ? DType::f32 : t;
  const AutocastScope scope(DType::f16);
  const DType got = functions().at(std::string(f.name))(inputs, Arguments(c.args)).at(0).dtype();
  return got == expected ? "" : fmt::format("gives {} for {}", name_of(got), name_of(t));
}

TEST(Catalogue, AutocastIsTrue) {
  for (const PublicFunction& f : catalogue()) {
    if (!stored(f.name) || (result_type(f.types, DType::f16) != DType::f16 && f.types != TypeRule::widened)) continue;
    const StoredCase& c = first_case(f);
    if (std::none_of(c.in.begin(), c.in.end(), &is_float)) continue;
    for (const DType t : {DType::f32, DType::f16}) {
      const std::string fault = fault_of_autocast(f, c, t);
      EXPECT_TRUE(fault.empty()) << f.name << " " << fault
                                 << " in an AutocastScope of f16; its column says: " << name_of(f.autocast);
    }
  }
}

// The parameter that the k-th input of a case is.
std::string parameter(const PublicFunction& f, size_t k) {
  if (f.name == "index_put") return k == 0 ? "x" : k == 1 ? "values" : "indices";  // the case's order
  if (f.name == "lu_solve") return k == 0 ? "factors" : "b";
  if (f.name == "cholesky_solve") return k == 0 ? "factor" : "b";  // the case's order
  if (f.name == "batch_norm") return std::array{"x", "weight", "bias", "running_mean", "running_var"}[k];
  if (f.name == "adaptive_log_softmax_with_loss" && k >= 3) return "tails";
  if (f.name == "cross_entropy" && k == 2) return "options.weight";
  if (f.name == "embedding_bag")
    return k == 0 ? "indices" : k == 3 ? "weights" : "weight";  // without offsets or with them
  if ((f.name == "nll_loss" && k == 2) || (f.name == "bce_with_logits" && k >= 2)) return "options.weight";
  if ((f.name == "stft" || f.name == "istft") && k == 1) return "options.window";
  const Declared& d = declared().at(std::string(f.name));
  size_t form = 0;
  for (size_t i = 1; i < d.forms.size(); ++i) form = d.forms[i].size() > d.forms[form].size() ? i : form;
  return d.lists[form] ? d.forms[form][0] : k < d.forms[form].size() ? d.forms[form][k] : fmt::format("input {}", k);
}

// The inputs through which results carry gradients.
std::set<std::string> tracked(const PublicFunction& f, const StoredCase& c) {
  std::set<std::string> result;
  for (size_t k = 0; k < c.in.size(); ++k) {
    if (!is_float(c.in[k])) continue;
    std::vector<Tensor> inputs = inputs_of(c, [&](size_t j) { return c.in[j]; });
    inputs[k].set_requires_grad(true);
    const std::vector<Tensor> outputs = functions().at(std::string(f.name))(inputs, Arguments(c.args));
    if (std::any_of(outputs.begin(), outputs.end(), [](const Tensor& t) { return t.requires_grad(); }))
      result.insert(parameter(f, k));
  }
  return result;
}

TEST(Catalogue, GradientsAreTrue) {
  for (const PublicFunction& f : catalogue()) {
    if (!stored(f.name) || declared().at(std::string(f.name)).forms[0].empty()) continue;
    std::set<std::string> found, compared;
    for (const StoredCase& c : stored_cases().at(std::string(f.name))) {
      if (!c.kind.empty()) continue;
      found.merge(tracked(f, c));
      for (const auto& [k, gradient] : c.gradients) compared.insert(parameter(f, k));
    }
    for (const char* of_options : {"options.weight", "options.window"}) found.erase(of_options);
    EXPECT_EQ(found, (std::set<std::string>(f.inputs.begin(), f.inputs.end()))) << f.name;
    if (f.derivative == Derivative::zero || f.name == "heaviside" || f.name.starts_with("unique"))
      continue;  // PyTorch has none for these: the tests below
    EXPECT_EQ(!compared.empty(), f.derivative == Derivative::any_order)
        << f.name << ": PyTorch's gradients are stored for [" << fmt::format("{}", fmt::join(compared, ", ")) << "]";
  }
}

// The gradients of flat functions are zeros, not only constant.
TEST(Catalogue, FlatGradientsAreZero) {
  for (const PublicFunction& f : catalogue()) {
    if (f.derivative != Derivative::zero || !stored(f.name)) continue;
    const StoredCase& c = first_case(f);
    std::vector<Tensor> inputs = inputs_of(c, [&](size_t k) { return c.in[k]; });
    for (Tensor& t : inputs) t.set_requires_grad(true);
    const Tensor out = functions().at(std::string(f.name))(inputs, Arguments(c.args)).at(0);
    for (const Tensor& g : grad(out, inputs, ones_like(out), false, true)) {
      if (!g.defined()) continue;
      for (const double v : g.to_doubles()) ASSERT_EQ(v, 0) << f.name;
    }
  }
}

TEST(Catalogue, HeavisideHasTheGradientOfItsValueAtZero) {
  Tensor x = Tensor::from_vector<float>({-1, 0, 2}, {3}, &reference()),
         at_zero = Tensor::from_vector<float>({0.5f, 0.25f, 4}, {3}, &reference());
  x.set_requires_grad(true);
  at_zero.set_requires_grad(true);
  const std::vector<Tensor> g = grad(sum(heaviside(x, at_zero)), {x, at_zero});
  EXPECT_EQ(g[0].to_doubles(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(g[1].to_doubles(), (std::vector<double>{0, 1, 0}));
}

TEST(Catalogue, UniqueHasTheGradientOfItsValues) {
  Tensor x = Tensor::from_vector<float>({3, 1, 2}, {3}, &reference());
  x.set_requires_grad(true);
  EXPECT_EQ(grad(sum(unique(x).values * arange(1, 4, 1, DType::f32, &reference())), x).to_doubles(),
            (std::vector<double>{3, 1, 2}));
}

void collect(const Node* node, const std::set<const Node*>& inputs, std::set<const Node*>& seen,
             std::set<std::string_view>& names) {
  if (inputs.contains(node) || !seen.insert(node).second) return;
  names.insert(node->op->name);
  for (const NodePtr& in : node->inputs) collect(in.get(), inputs, seen, names);
}

// What is said to be one row records it, and beside it nothing but views and casts.
TEST(Catalogue, RowsAreRecorded) {
  const std::set<std::string_view> beside{"reshape", "permute", "expand", "slice", "cast",
                                          "full",    "iota",    "add",    "leaf"};  // add: the bias of a convolution
  for (const PublicFunction& f : catalogue()) {
    if (f.row == nullptr || !stored(f.name)) continue;
    const StoredCase& c = first_case(f);
    const std::vector<Tensor> inputs = inputs_of(c, [&](size_t k) { return c.in[k]; });
    std::set<const Node*> leaves, seen;
    for (const Tensor& t : inputs) leaves.insert(t.node().get());
    std::set<std::string_view> names;
    for (const Tensor& t : functions().at(std::string(f.name))(inputs, Arguments(c.args)))
      collect(t.node().get(), leaves, seen, names);
    EXPECT_TRUE(names.contains(f.row->name)) << f.name << " records " << fmt::format("{}", fmt::join(names, ", "));
    const auto counts_from_the_end = [&](std::string_view name) {
      return f.name == "index_copy" && (name == "lt" || name == "where");
    };  // negative indices
    for (const std::string_view name : names)
      EXPECT_TRUE(name == f.row->name || beside.contains(name) || counts_from_the_end(name))
          << f.name << " records " << name;
  }
}

}  // namespace
}  // namespace heddle::tests
