// Which options count only beside others: momentum for some optimizers, gamma for some schedules.
//
//   refuse_unused_options(config, recipe_config("char-gpt"));   // [config] --momentum (optimizer.momentum) is 0.5, but
//   only sgd, rmsprop and muon use it: optimizer.name is adam
//
// Purpose: an option does what it says or is refused. Defaults stay silent. Errors: ValueError. Thread safety: the
// table is immutable.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/train/config.h"

namespace heddle::train {

// A row of the table: `option` counts where the option `beside` has one of these values, as toml_text() writes them
// without quotes; "> 0" is any number above 0.
struct OptionUse {
  std::string_view option, beside;
  std::vector<std::string_view> values;

  bool applies(const Config& config) const;
};
std::span<const OptionUse> option_uses();

// ValueError for an option that was given (Config::given()), or differs from `defaults`, and does not count in
// `config`.
void refuse_unused_options(const Config& config, const Config& defaults);

}  // namespace heddle::train
