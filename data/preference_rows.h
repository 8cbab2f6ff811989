// Pairs of answers as rows of one length, for training.
//
//   const data::PreferenceRows rows = data::preference_rows(chosen, rejected, {.length = 1024});
//   data::Loader loader(rows.dataset, ...);          // (B, 2, T) tokens, targets, both i32
//
// An example is two rows: the preferred answer and the other, each behind its question. Targets are the next token
// where that is trained, else -100, behind the end as well. Rows longer than the length are cut; a pair is left out
// where an answer then has no trained token, or where nothing is left in which the two differ.
// Errors: ValueError for a length below 2, lists of different lengths, and pairs that leave no row. Thread safety: pure
// function.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/data/chat_template.h"
#include "heddle/data/dataset.h"

namespace heddle::data {

struct PreferenceRowsOptions {
  int64_t length = 512;    // tokens of a row
  bool drop_long = false;  // pairs with a longer row are left out, instead of cut
};

struct PreferenceRows {
  DatasetPtr dataset;   // examples (tokens (2, length), targets (2, length)), i32
  int64_t pairs = 0;    // that are kept
  int64_t cut = 0;      // of those: pairs with a longer row, of which the first `length` tokens are kept
  int64_t dropped = 0;  // that are left out
  int64_t trained = 0;  // targets that the loss counts
};
PreferenceRows preference_rows(const std::vector<ChatTokens>& chosen, const std::vector<ChatTokens>& rejected,
                               const PreferenceRowsOptions& options = {});

}  // namespace heddle::data
