// Chats as rows of one length, for training.
//
//   const data::ChatRows rows = data::chat_rows(tokens, {.length = 1024});
//   data::Loader loader(rows.dataset, ...);          // (B, T) tokens, targets, segments, all i32
//
// A row holds examples one behind the other (pack), or one. Its targets are the next token of the same example where
// that is trained, else -100; its segments are the number of the example within the row, from 0, and -1 for padding, so
// that attention can be kept inside each. Packing puts the longest examples first, each into the fullest row that has
// room (best fit decreasing; Johnson 1973, "Near-optimal bin packing algorithms"); the order within equal lengths is
// the examples'.
// Errors: ValueError for a length below 2, padding below 0, and examples that leave no row. Thread safety: pure
// function.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/data/chat_template.h"
#include "heddle/data/dataset.h"

namespace heddle::data {

struct ChatRowsOptions {
  int64_t length = 512;    // tokens of a row
  bool pack = true;        // several short examples in a row
  bool drop_long = false;  // longer examples are left out, instead of cut
  int32_t padding = 0;     // the token behind the last example
};

struct ChatRows {
  DatasetPtr dataset;  // examples (tokens (length), targets (length), segments (length)), i32
  int64_t rows = 0;
  int64_t examples = 0;  // that are in a row
  int64_t cut = 0;       // of those: longer ones, of which the first `length` tokens are kept
  int64_t dropped = 0;   // longer ones with drop_long, and those of which no trained token is left
  int64_t tokens = 0;    // without padding
  int64_t trained = 0;   // targets that the loss counts
};
ChatRows chat_rows(const std::vector<ChatTokens>& examples, const ChatRowsOptions& options = {});

}  // namespace heddle::data
