// Prelude: which parts of shaders/prelude.* a kernel needs, and the few literals that need rewriting for GLSL.
//
// Purpose: a prelude file is cut into sections by lines "//@ name name ..."; a section without names is always taken,
// any other when one of its names occurs in the kernel (or in a section already taken). So a printed kernel holds what
// it uses, which keeps it readable and quick to compile, and f64 or i64 code never reaches a device that cannot compile
// it. Thread safety: pure functions.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "heddle/core/contract/device.h"

namespace heddle {

using Identifiers = std::set<std::string, std::less<>>;

// All identifiers of a text; comments and strings are not special.
Identifiers identifiers(std::string_view text);

// A file of the preludes, e.g. "prelude.pocl"; Error if this build has none of that name.
std::string_view prelude_text(std::string_view name);

// The sections of the target's prelude, then of prelude.math, that `used` asks for; `used` grows by what they use.
std::string select_prelude(Target target, Identifiers& used);

// GLSL needs suffixes on wide literals: F64(0.1) -> F64(0.1lf), I64(-5) -> I64(-5l). Other arguments stay.
std::string glsl_literals(std::string_view text);

}  // namespace heddle
