// What every function of the catalogue does with wrong input: a typed error under its own name, and never a crash.
//
// Two tests. Mutations: each stored (right) call with one thing changed at a time: rank, a size, a dtype, an undefined
// tensor, a number, a list. Whatever comes of it must be a value that can be computed, or a UserError whose message
// begins with the function's name. Refusals: wrong_calls.txt lists calls that must be refused, with an error that names
// what it got; every function has a line there or the reason why nothing that it is given is wrong. No device is
// needed.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "heddle/autograd/catalogue.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "tests/reference/functions.h"
#include "tests/reference/stored_cases.h"
#include "tests/support/reference_device.h"

namespace heddle::tests {
namespace {

using Json = nlohmann::json;

// Under the function's name; a Shape is made by the caller, before the call.
bool is_its_own(const std::string& name, const std::string& message) {
  return message.starts_with(fmt::format("[{}] ", name)) || message.starts_with("[shape] negative dimension ");
}

struct Call {
  std::string what;  // that was changed
  std::vector<Tensor> inputs;
  Json args;
};

// Empty when the call gives values or a proper refusal.
std::string fault(const std::string& name, const Call& call) {
  try {
    const std::vector<Tensor> outputs = functions().at(name)(call.inputs, Arguments(call.args));
    for (const Tensor& t : outputs) {
      if (t.defined() && t.numel() < 100'000) t.to_bytes();
    }
    return "";
  } catch (const UserError& e) {
    return is_its_own(name, e.what()) ? "" : e.what();
  } catch (const Json::exception&) {
    return "";  // functions_*.cpp cannot read such an argument
  } catch (const std::exception& e) {
    return fmt::format("not a UserError: {}", e.what());
  }
}

Tensor stored_input(const StoredTensor& t, DType type) {
  return stop_gradient(
      cast(Tensor::from_vector(std::vector<float>(t.values.begin(), t.values.end()), t.shape, &reference()), type));
}

Tensor of(const Shape& shape, DType t) { return ones(shape, t, &reference()); }

// ---- mutations of tensors

void change_input(std::vector<Call>& calls, const Call& right, size_t k) {
  const Tensor x = right.inputs[k];
  const auto add = [&](std::string what, Tensor t) {
    Call call = right;
    call.what = fmt::format("input {} {}", k, what);
    call.inputs[k] = std::move(t);
    calls.push_back(std::move(call));
  };
  add("undefined", Tensor());
  add("a scalar", of({}, x.dtype()));
  add("a vector of 3", of({3}, x.dtype()));
  add("one more axis", unsqueeze(x, 0));
  add("two more axes", unsqueeze(unsqueeze(x, 0), -1));
  for (int i = 0; i < x.rank(); ++i) {
    for (const int64_t size : {x.dim(i) + 1, int64_t{0}, int64_t{1}}) {
      std::vector<int64_t> sizes(x.shape().begin(), x.shape().end());
      sizes[static_cast<size_t>(i)] = size;
      const Shape changed(sizes);
      add(fmt::format("{} for {}", changed.str(), x.shape().str()), of(changed, x.dtype()));
    }
  }
  for (const DType t : {DType::f32, DType::f16, DType::f64, DType::u8, DType::i32, DType::i64, DType::boolean}) {
    if (t != x.dtype()) add(fmt::format("{} for {}", name_of(t), name_of(x.dtype())), cast(x, t));
  }
}

// ---- mutations of arguments

// f(place, values to put there) for each number and list of a JSON value; a place is a pointer such as /axes/0.
template <class F>
void each_place(const Json& value, const Json::json_pointer& at, F f) {
  if (value.is_number_integer()) {
    const auto n = value.get<int64_t>();
    for (const int64_t wrong : {int64_t{-1000}, int64_t{-1}, int64_t{0}, n + 1, int64_t{1000}}) f(at, Json(wrong));
  } else if (value.is_number_float()) {
    for (const double wrong : {-1.0, 0.0, 2.0, std::nan(""), std::numeric_limits<double>::infinity()})
      f(at, Json(wrong));
  } else if (value.is_string()) {
    f(at, Json(""));
  } else if (value.is_array()) {
    if (at.to_string().find("/amounts/") == std::string::npos)
      f(at, Json::array());  // functions_*.cpp read pairs there
    if (!value.empty()) {
      Json longer = value;
      longer.push_back(value.back());
      f(at, longer);
    }
    for (size_t i = 0; i < value.size(); ++i) each_place(value[i], at / i, f);
  } else if (value.is_object()) {
    for (const auto& [key, part] : value.items()) each_place(part, at / key, f);
  }
}

void change_arguments(std::vector<Call>& calls, const Call& right) {
  each_place(right.args, Json::json_pointer(), [&](const Json::json_pointer& at, const Json& wrong) {
    if (at.back() == "dtype" || at.back() == "mode" || at.back() == "reduction" || at.back() == "padding_mode" ||
        at.back() == "indexing" || at.back() == "norm")
      return;  // names that the test reads
    Call call = right;
    call.what = fmt::format("{} = {}", at.to_string(), wrong.dump());
    call.args[at] = wrong;
    calls.push_back(std::move(call));
  });
}

// The first case, and the first with other arguments.
std::vector<const StoredCase*> right_cases(const std::string& name) {
  std::vector<const StoredCase*> result;
  std::set<std::string> seen;
  for (const StoredCase& c : stored_cases().at(name)) {
    if (!c.kind.empty()) continue;  // made from another
    std::string keys = std::to_string(c.in.size());
    for (const auto& [key, value] : c.args.items()) keys += " " + key;
    if (seen.insert(keys).second) result.push_back(&c);
  }
  return result;
}

class Mutations : public ::testing::TestWithParam<std::string> {};

TEST_P(Mutations, GiveValuesOrProperErrors) {
  const std::string& name = GetParam();
  std::set<std::string> reported;
  for (const StoredCase* c : right_cases(name)) {
    Call right{"nothing", {}, c->args};
    for (size_t k = 0; k < c->in.size(); ++k) right.inputs.push_back(stored_input(c->inputs[k], c->in[k]));
    std::vector<Call> calls{right};
    const bool names_device =
        right.inputs.size() == 1 && right.inputs[0].numel() == 0;  // of a function without tensors
    for (size_t k = 0; k < c->in.size() && !names_device; ++k) change_input(calls, right, k);
    change_arguments(calls, right);
    for (const Call& call : calls) {
      if (getenv("HEDDLE_SHOW_CALLS")) fmt::print(stderr, "{} {} {}\n", name, call.what, call.args.dump());
      const std::string text = fault(name, call);
      if (!text.empty() && reported.insert(text.substr(0, 40)).second)
        ADD_FAILURE() << name << " with " << call.what << " " << call.args.dump() << ": " << text;
    }
  }
}

std::vector<std::string> stored_functions() {
  std::vector<std::string> names;
  // The cases of these call other functions with their inputs first.
  const std::set<std::string> wrapped{"eye",
                                      "ctc_loss",
                                      "max_unpool1d",
                                      "max_unpool2d",
                                      "max_unpool3d",
                                      "cholesky",
                                      "cholesky_inverse",
                                      "cholesky_solve",
                                      "solve",
                                      "solve_triangular",
                                      "inverse",
                                      "logdet",
                                      "lu",
                                      "lu_solve",
                                      "eigh",
                                      "eigvalsh",
                                      "condition_number"};
  for (const auto& [name, cases] : stored_cases()) {
    if (!wrapped.contains(name) && find_function(name)->family != "Linear algebra") names.push_back(name);
  }
  return names;
}

INSTANTIATE_TEST_SUITE_P(BadInput, Mutations, ::testing::ValuesIn(stored_functions()),
                         [](const auto& one) { return one.param; });

// ---- calls that must be refused

struct WrongCalls {
  std::map<std::string, std::vector<std::string>> lines;  // of each function
  std::map<std::string, std::string> reasons;
};

WrongCalls read_wrong_calls() {
  WrongCalls result;
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/reference/wrong_calls.txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::string name = line.substr(0, line.find(' '));
    const std::string rest = name.size() == line.size() ? "" : line.substr(name.size() + 1);
    if (rest.starts_with("= ")) {
      result.reasons[name] = rest.substr(2);
    } else {
      result.lines[name].push_back(rest);
    }
  }
  for (const PublicFunction& f : catalogue()) {
    if (f.row == nullptr || f.row->dialect.empty() || f.name != f.row->name) continue;
    const bool whole = f.types == TypeRule::whole;
    if (f.inputs.size() == 2 || f.row->arity == 2)
      result.lines[std::string(f.name)].push_back(whole ? "i32(2,3) i32(4,3)" : "(2,3) (4,3)");
    else if (whole)
      result.lines[std::string(f.name)].push_back("(3)");
    else
      result.reasons[std::string(f.name)] = "any shape";
  }
  return result;
}

// "i32(2,3)"
Tensor parse_tensor(const std::string& token) {
  const size_t open = token.find('(');
  Shape shape;
  std::stringstream sizes(token.substr(open + 1, token.size() - open - 2));
  for (std::string size; std::getline(sizes, size, ',');) shape.push_back(std::stoll(size));
  return of(shape, open == 0 ? DType::f32 : parse_dtype(token.substr(0, open)));
}

Call parse_call(const std::string& line) {
  const size_t brace = line.find('{');
  Call call{line, {}, brace == std::string::npos ? Json::object() : Json::parse(line.substr(brace))};
  std::stringstream tokens(line.substr(0, brace));
  for (std::string token; tokens >> token;) call.inputs.push_back(parse_tensor(token));
  return call;
}

// The shapes, sizes, types and numbers of a call, one of which a message that names what it got holds.
std::vector<std::string> things(const Call& call) {
  std::vector<std::string> result;
  for (const Tensor& t : call.inputs) {
    result.push_back(t.shape().str());
    if (t.rank() == 0) result.emplace_back("a scalar");
    for (const int64_t size : t.shape()) result.push_back(std::to_string(size));
    result.push_back(fmt::format("{} dim", t.rank()));
    result.emplace_back(name_of(t.dtype()));
  }
  each_place(call.args, Json::json_pointer(), [&](const Json::json_pointer& at, const Json&) {
    const Json& value = call.args.at(at);
    if (value.is_number_integer()) result.push_back(std::to_string(value.get<int64_t>()));
    if (value.is_number_float()) result.push_back(fmt::format("{}", value.get<double>()));
    if (value.is_string()) result.push_back(value.get<std::string>());
  });
  return result;
}

// Empty when the call is refused as it should be.
std::string not_refused(const std::string& name, const Call& call) {
  try {
    functions().at(name)(call.inputs, Arguments(call.args));
    return "is not refused";
  } catch (const UserError& e) {
    const std::string text = e.what();
    const bool typed = dynamic_cast<const ShapeError*>(&e) || dynamic_cast<const DTypeError*>(&e) ||
                       dynamic_cast<const ValueError*>(&e);
    if (!typed || !is_its_own(name, text)) return text;
    const std::vector<std::string> all = things(call);
    const bool named = call.inputs.empty() || text.find("neither") != std::string::npos ||
                       text.find("no q is given") != std::string::npos ||
                       text.find("the result has") != std::string::npos ||
                       std::any_of(all.begin(), all.end(),
                                   [&](const std::string& thing) { return text.find(thing) != std::string::npos; });
    return named ? "" : "does not say what it got: " + text;
  } catch (const std::exception& e) {
    return fmt::format("not a UserError: {}", e.what());
  }
}

TEST(WrongCalls, AreRefusedAndSayWhatTheyGot) {
  const WrongCalls wrong = read_wrong_calls();
  size_t count = 0;
  for (const auto& [name, lines] : wrong.lines) {
    ASSERT_TRUE(functions().contains(name)) << name;
    for (const std::string& line : lines) {
      const std::string text = not_refused(name, parse_call(line));
      EXPECT_EQ(text, "") << name << " " << line;
      ++count;
    }
  }
  fmt::print("{} wrong calls of {} functions\n", count, wrong.lines.size());
}

TEST(WrongCalls, EveryFunctionHasSomeOrAReason) {
  const WrongCalls wrong = read_wrong_calls();
  for (const PublicFunction& f : catalogue()) {
    const std::string name(f.name);
    EXPECT_TRUE(wrong.lines.contains(name) || wrong.reasons.contains(name))
        << name << " has no line in tests/reference/wrong_calls.txt";
  }
  for (const auto& [name, lines] : wrong.lines) EXPECT_NE(find_function(name), nullptr) << name << " is no function";
  for (const auto& [name, reason] : wrong.reasons) EXPECT_NE(find_function(name), nullptr) << name << " is no function";
}

}  // namespace
}  // namespace heddle::tests
