// Tokenizers of language models as plain data: the stages that a tokenizer.json of Hugging Face's library, or a GGUF
// file, describes.
//
// A text is cut at its added tokens; what lies between is normalised (Normaliser), cut into pieces (Cut), and each
// piece becomes tokens (the model). Tokens become text by what each stands for (Decoding). Invariants: a Pipeline is
// what check_pipeline() takes, once a PipelineTokenizer holds it. Thread safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "heddle/data/tokenizer.h"
#include "heddle/data/words.h"

namespace heddle::data {

// A token that is found in the text before anything else happens.
struct AddedToken {
  std::string text;
  int32_t token = 0;
  bool special = false;           // found only where special tokens are recognised
  bool takes_space_left = false;  // the white space around it belongs to it
  bool takes_space_right = false;
  bool normalised = false;  // looked for in the normalised text
};

struct ToNfc {};
struct Prepend {
  std::string text;  // in front of a text that is not empty
};
struct Replace {
  std::string from, to;  // texts as they stand
};
using Normaliser = std::variant<ToNfc, Prepend, Replace>;

struct CutWords {
  WordRule rule;
};
// At each place of a text: what is found becomes a piece, or joins the piece before or behind it.
enum class Found : uint8_t { apart, with_previous, with_next };
struct CutAt {
  std::string text;
  Found how = Found::apart;
};
struct CutDigits {
  bool each = true;  // a piece of its own; else those in a row together
};
// From here on pieces are bytes, each one symbol (GPT-2's byte level); nothing is cut behind it.
struct CutBytes {
  bool space_in_front = false;  // of a piece that begins with none
  bool words = true;            // cut by WordRule::gpt2 first
};
// SentencePiece's: spaces become a visible mark.
enum class MarkInFront : uint8_t { always, first, never };
struct CutSpaces {
  std::string mark;
  MarkInFront in_front = MarkInFront::always;  // `first`: only where the piece begins the whole text
  bool cut = true;                             // in front of each mark
};
using Cut = std::variant<CutWords, CutAt, CutDigits, CutBytes, CutSpaces>;

struct PairModel {
  struct Merge {
    int32_t left, right, result;
  };
  std::vector<Merge> merges;   // by rank
  bool whole_words = false;    // a piece that is a token stays whole, whatever the merges say
  bool joins_unknown = false;  // unknown characters in a row are one unknown token
};
// Kudo 2018, "Subword regularization": the likeliest cut, each token weighing its logarithm.
struct UnigramModel {
  std::vector<double> scores;  // by token
};

struct FromBytes {};  // names are printable characters for bytes (GPT-2's)
struct ByteNames {};  // "<0x0A>" is that byte
struct FuseText {};   // from here on the text is one
struct StripStart {
  std::string text;  // once, off the text's beginning
};
struct FromMarks {
  std::string mark;        // is a space
  bool drop_first = true;  // but nothing in the first token
};
using Decoding = std::variant<FromBytes, ByteNames, FuseText, StripStart, FromMarks, Replace>;

struct Pipeline {
  std::vector<std::string> names;  // by token, as the file writes them; empty: there is no such token
  std::vector<AddedToken> added;   // their names are in `names` too
  std::vector<Normaliser> normalisers;
  std::vector<Cut> cuts;
  std::variant<PairModel, UnigramModel> model;
  std::optional<int32_t> unknown;  // of what has no token; without it such a text is refused
  bool byte_fallback = false;      // but bytes have: "<0x0A>"
  std::vector<Decoding> decoding;
  TextEnds ends;

  // Whether pieces are bytes.
  bool of_bytes() const;
};

// The token of a byte where characters fall back on bytes: "<0x0A>".
std::string byte_name(uint8_t byte);
// ValueError in one line for what does not fit together.
void check_pipeline(const Pipeline& pipeline);

}  // namespace heddle::data
