// Images in another size, smoothed: where an image becomes smaller, every pixel is a mean over those that it stands
// for, so that a large photograph does not become a pattern of single pixels.
//
// The filter is a triangle as wide as two pixels of the coarser of the two grids, pixel centres at halves; an image
// that becomes larger is interpolated bilinearly. Errors: those of memory. Thread safety: pure.
#pragma once

#include <cstdint>

#include "heddle/data/array.h"

namespace heddle::data {

// (channels, height, width), u8 (rounded) or f32, none of them 0.
Array resampled(const Array& image, int64_t height, int64_t width);

}  // namespace heddle::data
