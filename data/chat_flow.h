// What a Jinja template writes, as one text in which the expressions that matter have a character each. Internal.
//
// Literal texts stand as they are written, outside of tags as well as in `{{ 'a' + x }}` and `{% set y = 'a' + x %}`.
// Tags are cuts: what stands on both sides of one may or may not be written together. Errors: none; text that is no
// Jinja makes a flow like any other. Thread safety: pure function.
#pragma once

#include <string>
#include <string_view>

namespace heddle::data::detail {

// Characters of a flow; those of data/chat_form.h, and:
inline constexpr char flow_begin = '\x02', flow_end = '\x03';  // bos_token, eos_token
inline constexpr char flow_content = '\x04';                   // of a turn
inline constexpr char flow_trimmed = '\x05';                   // the same without white space around it
inline constexpr char flow_role = '\x06';                      // of a turn
inline constexpr char flow_system = '\x0e';                    // the system's text
inline constexpr char flow_other = '\x0f';                     // any other expression
inline constexpr char flow_cut = '\x10';                       // a tag

std::string chat_flow(std::string_view jinja);

}  // namespace heddle::data::detail
