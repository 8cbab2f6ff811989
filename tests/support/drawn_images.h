// Folders of small pictures that a test draws: stripes in one direction or the other, of any two colours.
//
// Neither colour, brightness nor place tells the classes apart: only the direction does, so that a network which has
// learned nothing is right as often as chance is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "heddle/data/image_file.h"
#include "tests/support/temporary_folder.h"

namespace heddle::test {

// (3, height, width): stripes that lie ("lying") or stand ("standing").
inline data::Array drawn_stripes(bool standing, uint32_t seed, int64_t height = 20, int64_t width = 26) {
  std::mt19937 random(seed);
  const auto draw = [&](uint32_t below) { return random() % below; };
  const uint32_t phase = draw(6);
  uint8_t colours[2][3];
  for (int c = 0; c < 3; ++c) {
    colours[0][c] = static_cast<uint8_t>(draw(110));
    colours[1][c] = static_cast<uint8_t>(145 + draw(110));
  }
  std::vector<uint8_t> pixels;
  for (int c = 0; c < 3; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x)
        pixels.push_back(static_cast<uint8_t>(colours[(static_cast<uint32_t>(standing ? x : y) + phase) / 3 % 2][c]));
    }
  }
  return data::Array::of(pixels, {3, height, width});
}

// `count` pictures of each class in FOLDER/lying and FOLDER/standing.
inline void draw_stripe_folder(const std::string& folder, int count, uint32_t seed = 0) {
  for (const bool standing : {false, true}) {
    const std::string of = folder + (standing ? "/standing" : "/lying");
    std::filesystem::create_directories(of);
    for (int i = 0; i < count; ++i)
      data::write_png(of + "/" + std::to_string(100 + i) + ".png",
                      drawn_stripes(standing, seed + static_cast<uint32_t>(2 * i) + (standing ? 1 : 0)));
  }
}

}  // namespace heddle::test
