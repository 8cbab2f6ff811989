#include "tests/reference/property.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "heddle/autograd/transforms.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/philox.h"

namespace heddle::tests {
namespace {

std::map<std::string, size_t>& counts() {
  static std::map<std::string, size_t> by_property;
  return by_property;
}

class Report : public ::testing::Environment {
 public:
  void TearDown() override {
    size_t total = 0;
    for (const auto& [name, count] : counts()) {
      fmt::print("{}: {} cases\n", name, count);
      total += count;
    }
    fmt::print("{} cases of properties\n", total);
  }
};
const auto* const report = ::testing::AddGlobalTestEnvironment(new Report);

Tensor leaf(const StoredTensor& stored, DType dtype, DType floats, DeviceContext& device) {
  if (is_float(dtype)) return stop_gradient(cast(Tensor::from_vector(stored.values, stored.shape, &device), floats));
  return stop_gradient(
      cast(Tensor::from_vector(std::vector<int64_t>(stored.values.begin(), stored.values.end()), stored.shape, &device),
           dtype));
}

Verdict judge(const Property& property, const StoredCase& c) {
  try {
    return property(c);
  } catch (const std::exception& e) {
    return std::string(e.what());
  }
}

}  // namespace

Subject::Subject(const StoredCase& s, DType floats_as, const std::string& on)
    : stored(s), floats(floats_as), device(heddle::device(on)), args_(s.args) {
  for (size_t k = 0; k < s.inputs.size(); ++k) inputs.push_back(leaf(s.inputs[k], s.in[k], floats_as, device));
}

List Subject::variables() const {
  List chosen;
  for (const auto& [k, gradient] : stored.gradients) chosen.push_back(inputs[k]);
  return chosen;
}

List Subject::with_variables(List in, const List& variables) const {
  size_t at = 0;
  for (const auto& [k, gradient] : stored.gradients) in[k] = variables[at++];
  return in;
}

List Subject::smooth_outputs(const List& variables) const {
  const List all = call(with_variables(inputs, variables));
  List chosen;
  for (const auto& [k, cotangent] : stored.cotangents) chosen.push_back(all[k]);
  return chosen;
}

List Subject::outputs_and_gradients(const List& in) const {
  if (!smooth()) return call(in);
  List variables;
  for (const auto& [k, gradient] : stored.gradients) variables.push_back(in[k]);
  auto [all, pull] = vjp([&](const List& x) { return call(with_variables(in, x)); }, variables);
  List cotangents(all.size());
  for (const auto& [k, cotangent] : stored.cotangents) cotangents[k] = direction(all[k], static_cast<uint32_t>(k));
  for (const Tensor& g : pull(cotangents)) all.push_back(g);
  return all;
}

Tensor direction(const Tensor& like, uint32_t seed) {
  std::vector<float> values(static_cast<size_t>(like.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(std::floor(128 * philox_uniform({seed, 2, 7, 1}, i) - 64) + 0.5) / 64;
  return cast(Tensor::from_vector(values, like.shape(), &like.device()), like.dtype());
}

List directions(const List& like, uint32_t seed) {
  List all;
  for (const Tensor& x : like) all.push_back(direction(x, 100 * seed + static_cast<uint32_t>(all.size())));
  return all;
}

Tensor inner(const List& a, const List& b) {
  Tensor total = sum(a[0] * b[0]);
  for (size_t i = 1; i < a.size(); ++i) total = total + sum(a[i] * b[i]);
  return total;
}

std::string list_difference(const List& found, const List& expected, double relative) {
  if (found.size() != expected.size()) return fmt::format("{} tensors instead of {}", found.size(), expected.size());
  for (size_t k = 0; k < found.size(); ++k) {
    if (found[k].shape() != expected[k].shape() || found[k].dtype() != expected[k].dtype()) {
      return fmt::format("tensor {} is {} {} instead of {} {}", k, found[k].shape().str(), name_of(found[k].dtype()),
                         expected[k].shape().str(), name_of(expected[k].dtype()));
    }
    const std::vector<double> a = found[k].to_doubles(), b = expected[k].to_doubles();
    double largest = 1;
    for (const double v : b) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
    for (size_t i = 0; i < a.size(); ++i) {
      const bool same =
          a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])) || std::abs(a[i] - b[i]) <= relative * largest;
      if (!same) return fmt::format("tensor {} element {}: {:.12g} instead of {:.12g}", k, i, a[i], b[i]);
    }
  }
  return "";
}

std::vector<std::string> stored_functions() {
  std::vector<std::string> names;
  for (const auto& [name, cases] : stored_cases()) names.push_back(name);
  return names;
}

const Exemption* exemption_of(std::string_view property, const StoredCase& c) {
  for (const Exemption& e : exemptions()) {
    if (e.property == property && e.function == c.op && c.name.find(e.part) != std::string::npos) return &e;
  }
  return nullptr;
}

bool all_finite(const List& tensors) {
  for (const Tensor& t : tensors) {
    const std::vector<double> values = t.to_doubles();
    if (!std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); })) return false;
  }
  return true;
}

void check_cases(const char* name, std::span<const StoredCase> cases, const Property& property, bool every_exemption) {
  std::map<const Exemption*, bool> needed;
  for (const StoredCase& c : cases) {
    const Verdict verdict = judge(property, c);
    const bool wrong = verdict && !verdict->empty();
    if (const Exemption* exemption = exemption_of(name, c)) {
      needed[exemption] = needed[exemption] || wrong;
      continue;
    }
    if (verdict) ++counts()[name];
    if (wrong) ADD_FAILURE() << c.name << ": " << *verdict;
  }
  for (const auto& [exemption, used] : needed) {
    EXPECT_TRUE(used || !every_exemption) << "the exemption of " << exemption->function << " '" << exemption->part
                                          << "' (" << exemption->reason << ") is no longer needed: take it out";
  }
}

void check_property(const char* name, const Property& property, const std::string& function) {
  check_cases(name, stored_cases().at(function), property);
}

// An exemption of a function that has no stored cases is a misspelling.
TEST(PropertyExemptions, NameStoredFunctions) {
  for (const Exemption& e : exemptions()) {
    const auto found = stored_cases().find(std::string(e.function));
    ASSERT_NE(found, stored_cases().end()) << e.function;
    EXPECT_TRUE(std::any_of(found->second.begin(), found->second.end(),
                            [&](const StoredCase& c) { return c.name.find(e.part) != std::string::npos; }))
        << e.function << " " << e.part;
    EXPECT_FALSE(e.reason.empty());
  }
}

}  // namespace heddle::tests
