// heddle_drawn_calls DEVICE CALLS ANSWERS [FIRST LAST]: Heddle's side of bench/drawn_calls.py.
//
// CALLS is a safetensors file as those of tests/reference/values (stored_cases.h), with how each input lies in memory
// beside it ("ways"). Each call, and the gradient of its floating results, is recorded as one step on the device;
// ANSWERS gets the results as f64 and, in its metadata, their dtypes or what was refused. The number of the call at
// work is written to ANSWERS.now, so that a call that ends the process can be named.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/io/safetensors.h"
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

using List = std::vector<Tensor>;

// What no stored case calls: a number on either side, and casts.
Functions with_numbers() {
  Functions table = functions();
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc)
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc)                                                \
  table[#name "_number"] = one([](Inputs in, const Arguments& a) { return heddle::name(in[0], a.real("number")); }); \
  table["number_" #name] = one([](Inputs in, const Arguments& a) { return heddle::name(a.real("number"), in[0]); });
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY
  table["fmod_number"] = one([](Inputs in, const Arguments& a) { return fmod(in[0], a.real("number")); });
  table["floor_divide_number"] =
      one([](Inputs in, const Arguments& a) { return floor_divide(in[0], a.real("number")); });
  table["cast"] = one([](Inputs in, const Arguments& a) { return cast(in[0], parse_dtype(a.text("dtype"))); });
  return table;
}

// The way a value lies on the device: dense, behind other rows, every second, flipped, turned, or repeated from one row
// where all are equal.
Tensor lying(const Tensor& host, int way, DeviceContext& device) {
  const int rank = host.rank();
  if (rank == 0 || host.numel() == 0) way = 0;
  std::vector<int> axes(static_cast<size_t>(rank));
  for (int d = 0; d < rank; ++d) axes[static_cast<size_t>(d)] = rank - 1 - d;
  const auto upload = [&](const Tensor& value) {
    const Tensor there = value.to(device);
    eval({there});
    return stop_gradient(there);
  };
  switch (way) {
    case 1:
      return slice(upload(concat({slice(host, 0, {.start = 0, .stop = 1}), host}, 0)), 0, {.start = 1});
    case 2:
      return slice(upload(repeat_interleave(host, 2, -1)), -1, {.step = 2});
    case 3:
      return flip(upload(flip(host, axes)), axes);
    case 4:
      return permute(upload(permute(host, axes)), axes);
    case 5:
      return expand(upload(slice(host, 0, {.start = 0, .stop = 1})), host.shape());
    default:
      return upload(host);
  }
}

class Answers {
 public:
  Answers(SafetensorsFile calls, DeviceContext& device)
      : calls_(std::move(calls)), device_(device), list_(nlohmann::json::parse(calls_.metadata.at("cases"))) {}

  size_t count() const { return list_.size(); }
  void answer(size_t number) {
    nlohmann::json said = nlohmann::json::object();
    try {
      said = call(number);
    } catch (const std::exception& e) {
      said["refused"] = e.what();
    }
    said["call"] = number;
    said_.push_back(said);
  }
  void save(const std::string& path) const { save_safetensors(path, results_, {{"answers", said_.dump()}}); }

 private:
  nlohmann::json call(size_t number) {
    const nlohmann::json& entry = list_[number];
    const std::vector<size_t> wanted = entry.at("grad");
    List inputs;
    for (size_t k = 0; k < entry.at("in").size(); ++k) {
      inputs.push_back(lying(cast(stored(number, "in", k), parse_dtype(entry["in"][k].get<std::string>())),
                             entry.at("ways")[k], device_));
      if (std::find(wanted.begin(), wanted.end(), k) != wanted.end()) inputs.back().set_requires_grad(true);
    }
    static const Functions table = with_numbers();
    const List outputs = table.at(entry.at("op"))(inputs, Arguments(entry.at("args")));
    List smooth, cotangents, leaves, gradients;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!calls_.tensors.contains(fmt::format("{}.cot.{}", number, k))) continue;
      smooth.push_back(outputs[k]);
      cotangents.push_back(cast(stored(number, "cot", k), outputs[k].dtype()).to(device_));
    }
    for (const size_t k : wanted) leaves.push_back(inputs[k]);
    if (!leaves.empty() && !smooth.empty()) gradients = grad(smooth, leaves, cotangents);
    nlohmann::json said = {{"out", nlohmann::json::array()}, {"grad", nlohmann::json::array()}};
    for (size_t k = 0; k < outputs.size(); ++k)
      said["out"].push_back(keep(fmt::format("{}.out.{}", number, k), outputs[k]));
    for (size_t k = 0; k < gradients.size(); ++k)
      said["grad"].push_back(keep(fmt::format("{}.grad.{}", number, wanted[k]), gradients[k]));
    return said;
  }

  const Tensor& stored(size_t number, const char* role, size_t k) const {
    return calls_.tensors.at(fmt::format("{}.{}.{}", number, role, k));
  }

  std::string keep(const std::string& name, const Tensor& value) {
    results_[name] = Tensor::from_vector(value.to_doubles(), value.shape(), &device("reference:0"));
    return std::string(name_of(value.dtype()));
  }

  SafetensorsFile calls_;
  DeviceContext& device_;
  nlohmann::json list_, said_ = nlohmann::json::array();
  TensorMap results_;
};

size_t number_of(const std::string& text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw ValueError(fmt::format("'{}' is no number", text));
  return value;
}

int run(const std::vector<std::string>& args) {
  if (args.size() != 3 && args.size() != 5)
    throw ValueError("usage: heddle_drawn_calls DEVICE CALLS ANSWERS [FIRST LAST]");
  Answers answers(load_safetensors(args[1], &device("reference:0")), device(args[0]));
  const size_t first = args.size() == 5 ? number_of(args[3]) : 0,
               last = args.size() == 5 ? std::min(number_of(args[4]), answers.count()) : answers.count();
  for (size_t i = first; i < last; ++i) {
    std::ofstream(args[2] + ".now") << i << "\n";
    answers.answer(i);
  }
  answers.save(args[2]);
  return 0;
}

}  // namespace
}  // namespace heddle::tests

int main(int argc, char** argv) {
  try {
    return heddle::tests::run({argv + 1, argv + argc});
  } catch (const std::exception& e) {
    fmt::print(stderr, "heddle_drawn_calls: {}\n", e.what());
    return 2;
  }
}
