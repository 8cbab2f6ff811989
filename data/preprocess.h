// Preprocessing: what training and inference have to do alike, stored with the model.
//
//   save_safetensors(path, model.state_dict(), {{"preprocessing", preprocessing.str()}});
//   const auto same = data::Preprocessing::parse(file.metadata.at("preprocessing"), path);
//   auto set = data::transformed(images, same.make_transforms());
//
// Errors: IoError for text that is no such description. Thread safety: a value.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/data/tokenizer.h"
#include "heddle/data/transforms.h"

namespace heddle::data {

struct Preprocessing {
  std::vector<std::string>
      transforms;  // of every example, as parse_transform() takes them; chance belongs to training and is not here
  Statistics statistics;             // behind them, per channel; empty: pixels are only divided by 255
  std::vector<std::string> classes;  // names of the classes; empty: numbers
  TokenizerPtr tokenizer;            // of text

  // JSON.
  std::string str() const;
  static Preprocessing parse(std::string_view text, std::string_view where = "preprocessing");
  // The transforms, to_float(), and normalise() with the statistics.
  std::vector<Transform> make_transforms() const;
  // The first and the last of these alone.
  std::vector<Transform> make_geometry() const;
  std::vector<Transform> make_normalisation() const;
};

}  // namespace heddle::data
