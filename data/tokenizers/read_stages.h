// The stages of a tokenizer.json: parts of pipeline_from_json(). Internal.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "heddle/data/tokenizers/pipeline.h"

namespace heddle::data::detail {

std::vector<Normaliser> read_normalisers(const nlohmann::json& json, std::string_view where);
std::vector<Cut> read_cuts(const nlohmann::json& json, std::string_view where);
TextEnds read_ends(const nlohmann::json& json, std::string_view where);
std::vector<Decoding> read_decoding(const nlohmann::json& json, std::string_view where);

}  // namespace heddle::data::detail
