// GraphImage to bytes and back.
//
// Invariants: the bytes of an image that was read are the bytes that it was read from. Nothing in bytes is believed: a
// file that was cut, changed or made by hand gives an error, never an image with a fault (core/run/image.h).
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/core/run/image.h"

namespace heddle {

std::vector<uint8_t> image_bytes(const GraphImage& image);
// IoError "[image] ..." when the bytes are no image, or one of another version of the format.
GraphImage image_from_bytes(std::span<const uint8_t> bytes);

}  // namespace heddle
