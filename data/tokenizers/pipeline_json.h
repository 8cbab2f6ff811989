// Pipelines as tokenizer.json files of Hugging Face's library write them.
//
// Read are the models BPE and Unigram; the normalisers NFC, Prepend and Replace; the pre-tokenizers ByteLevel, Split
// (by a text, or a regular expression of data/words.h), Digits and Metaspace; the post-processors ByteLevel and
// TemplateProcessing; the decoders ByteLevel, Replace, ByteFallback, Fuse, Strip and Metaspace; sequences of each.
// Whatever else a file holds, every key that is not known and every value that would change what comes out, is refused
// by its name. Errors: IoError "[tokenizer] WHERE: key.key: what is wrong" in one line. Thread safety: pure functions.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "heddle/data/tokenizers/pipeline.h"

namespace heddle::data::detail {

// Whether it is such a file, rather than what Tokenizer::str() wrote.
bool is_tokenizer_json(const nlohmann::json& json);
Pipeline pipeline_from_json(const nlohmann::json& json, std::string_view where);
std::string pipeline_to_json(const Pipeline& pipeline);
// What PipelineTokenizer::str() wrote: such a file as "tokenizer", and beside it the tokens "begin" and "end".
Pipeline pipeline_from_stored(const nlohmann::json& json, std::string_view where);

}  // namespace heddle::data::detail
