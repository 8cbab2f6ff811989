#include "heddle/core/tiles/choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

const std::vector<int64_t>& choices_of(std::string_view body, std::string_view tunable) {
  for (const KernelTunable& t : KernelFile::builtin(body).tunables) {
    if (t.name == tunable) return t.choices;
  }
  throw ValueError(fmt::format("[tiles] shaders/{}.hk declares no tunable {}", body, tunable));
}

int64_t choice_at_least(std::string_view body, std::string_view tunable, int64_t value) {
  const std::vector<int64_t>& choices = choices_of(body, tunable);
  const auto at = std::lower_bound(choices.begin(), choices.end(), value);
  return at == choices.end() ? choices.back() : *at;
}

int64_t choice_at_most(std::string_view body, std::string_view tunable, int64_t value) {
  const std::vector<int64_t>& choices = choices_of(body, tunable);
  const auto above = std::upper_bound(choices.begin(), choices.end(), value);
  return above == choices.begin() ? choices.front() : *std::prev(above);
}

bool is_small_work(int64_t multiply_adds, int64_t weights, int64_t threads) {
  constexpr int64_t most = 1 << 20, most_weights = 1 << 18;
  return threads <= 1 || (multiply_adds <= most * threads / (threads - 1) && weights <= most_weights);
}

}  // namespace heddle
