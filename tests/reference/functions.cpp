#include "tests/reference/functions.h"

#include <algorithm>

#include "checks/op_cases.h"

namespace heddle::tests {

using checks::apply_row;

const nlohmann::json* Arguments::find(const std::string& key) const {
  const auto at = values_.find(key);
  if (at == values_.end()) return nullptr;
  read_.push_back(key);
  return &*at;
}

std::string Arguments::unused() const {
  for (const auto& [key, value] : values_.items()) {
    if (std::find(read_.begin(), read_.end(), key) == read_.end()) return key;
  }
  return "";
}

const Functions& functions() {
  static const Functions table = [] {
    Functions t;
    add_elementwise(t);
    add_reduce(t);
    add_movement(t);
    add_nn(t);
    add_math(t);
    add_losses(t);
    add_pool(t);
    add_image(t);
    add_shape(t);
    add_einsum(t);
    add_linalg(t);
    add_statistics(t);
    add_creation(t);
    add_scatter(t);
    add_fft(t);
    add_special(t);
    add_sequence(t);
    add_padding(t);
    add_arrange(t);
    return t;
  }();
  return table;
}

void add_elementwise(Functions& table) {
  for (const OpDef* row : all_ops()) {
    if (!row->dialect.empty())
      table[std::string(row->name)] = one([row](Inputs in, const Arguments&) { return apply_row(*row, in); });
  }
  table["where"] = one([](Inputs in, const Arguments&) { return where(in[0], in[1], in[2]); });
  table["clamp"] =
      one([](Inputs in, const Arguments& a) { return clamp(in[0], a.maybe_real("low"), a.maybe_real("high")); });
}

}  // namespace heddle::tests
