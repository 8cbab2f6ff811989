// From a plan to its image: vertices become places, kernels of one text become one.
// Thread safety: pure function.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/memory/plan.h"
#include "heddle/core/run/image.h"

namespace heddle {

// `lines`: by kernel of the plan, the user's lines that it comes from (core/ir/source_lines.h).
GraphImage build_image(const Plan& plan, const Caps& caps, std::span<const std::vector<std::string>> lines);

}  // namespace heddle
