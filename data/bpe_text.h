// BPE tokenizers as text: the forms of GPT-2's files. Internal.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/data/tokenizer.h"

namespace heddle::data::detail {

// {"type": "bpe", "vocab": {token: number}, "merges": ["left right"]}; IoError with `where`, and JSON's own exceptions.
std::shared_ptr<const BpeTokenizer> bpe_from_json(const nlohmann::json& json, std::string_view where);

// The printable characters that stand for bytes: a byte that is printable Latin-1 for itself, the others, in order, for
// U+0100 and on. By byte.
const std::vector<int32_t>& code_of_byte();
// The text of bytes in these characters, and back: nothing where a character stands for no byte.
std::string printable_bytes(std::string_view bytes);
std::optional<std::string> bytes_of_printable(std::string_view text);
// The order in which GPT-2 numbers bytes: that of those characters.
std::vector<uint8_t> bytes_in_order();

}  // namespace heddle::data::detail
