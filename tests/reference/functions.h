// Heddle's public functions by name, called with the inputs and arguments of a stored case.
//
// Purpose: what the cases of values/*.safetensors (made from PyTorch by generate.py) call. A family of rows,
// rows_FAMILY.py, has its functions in functions_FAMILY.cpp. Elementwise rows of the op table are found by themselves.
// Thread safety: pure.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/functions/functions.h"

namespace heddle::tests {

// The "args" of a case; a key that is missing takes the fallback. A key that no call asked for fails the case (see
// unused()).
class Arguments {
 public:
  explicit Arguments(const nlohmann::json& values) : values_(values) {}

  int64_t integer(const std::string& key, int64_t fallback = 0) const { return get<int64_t>(key, fallback); }
  int axis(const std::string& key, int fallback = -1) const { return get<int>(key, fallback); }
  double real(const std::string& key, double fallback = 0) const { return get<double>(key, fallback); }
  bool flag(const std::string& key, bool fallback = false) const { return get<bool>(key, fallback); }
  std::string text(const std::string& key, const std::string& fallback = "") const {
    return get<std::string>(key, fallback);
  }
  std::vector<int64_t> integers(const std::string& key) const { return get<std::vector<int64_t>>(key, {}); }
  std::vector<int> axes(const std::string& key) const { return get<std::vector<int>>(key, {}); }
  std::vector<double> reals(const std::string& key) const { return get<std::vector<double>>(key, {}); }
  bool has(const std::string& key) const { return find(key) != nullptr; }
  std::optional<int64_t> maybe_integer(const std::string& key) const {
    return has(key) ? std::optional(integer(key)) : std::nullopt;
  }
  std::optional<int> maybe_axis(const std::string& key) const {
    return has(key) ? std::optional(axis(key)) : std::nullopt;
  }
  std::optional<double> maybe_real(const std::string& key) const {
    return has(key) ? std::optional(real(key)) : std::nullopt;
  }
  const nlohmann::json& raw(const std::string& key) const { return *find(key); }
  // A key that nobody read: the case would test something else than it says.
  std::string unused() const;

 private:
  const nlohmann::json* find(const std::string& key) const;
  template <class T>
  T get(const std::string& key, T fallback) const {
    const nlohmann::json* value = find(key);
    return value ? value->get<T>() : fallback;
  }

  const nlohmann::json& values_;
  mutable std::vector<std::string> read_;
};

using Inputs = std::span<const Tensor>;
using Function = std::function<std::vector<Tensor>(Inputs, const Arguments&)>;
using Functions = std::map<std::string, Function>;

// Every function that stored cases name.
const Functions& functions();

// One result.
template <class F>
Function one(F f) {
  return [f](Inputs in, const Arguments& args) { return std::vector<Tensor>{f(in, args)}; };
}

void add_elementwise(Functions& table);
void add_reduce(Functions& table);
void add_movement(Functions& table);
void add_nn(Functions& table);
void add_math(Functions& table);
void add_losses(Functions& table);
void add_pool(Functions& table);
void add_image(Functions& table);
void add_shape(Functions& table);
void add_einsum(Functions& table);
void add_linalg(Functions& table);
void add_statistics(Functions& table);
void add_creation(Functions& table);
void add_scatter(Functions& table);
void add_fft(Functions& table);
void add_special(Functions& table);
void add_sequence(Functions& table);
void add_padding(Functions& table);
void add_arrange(Functions& table);

// The argument "reduction".
inline Reduction reduction(const Arguments& a, const char* fallback = "mean") {
  const std::string name = a.text("reduction", fallback);
  return name == "sum" ? Reduction::sum : name == "none" ? Reduction::none : Reduction::mean;
}

}  // namespace heddle::tests
