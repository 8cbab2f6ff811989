// Transforms of images for data/loader.h: what is done to an example on the host, in a worker.
//
// Every one takes the image as the first array of an example, u8 or f32, (channels, height, width), and leaves the
// others alone. Chance comes from the example's own Random. Geometry keeps the dtype; colours need f32 (to_float()).
// Errors: ShapeError and DTypeError, at the example, for an image that does not fit; ValueError, when a transform is
// made, for numbers that cannot be meant. Thread safety: transforms are immutable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/data/dataset.h"

namespace heddle::data {

// u8 to f32, divided by 255; f32 stays.
Transform to_float();
// (x - mean) / deviation for each channel; f32.
Transform normalise(std::vector<double> mean, std::vector<double> deviation);
// Bilinear, pixel centres at halves (align_corners = false), without smoothing; u8 is rounded.
Transform resize(int64_t height, int64_t width);
// The square in the middle whose side is that share of the shorter side, in this size; smoothed where it becomes
// smaller (data/resample.h).
Transform centre_square(int64_t size, double share = 1);
Transform centre_crop(int64_t height, int64_t width);
// A crop at random behind `padding` zeros on every side.
Transform random_crop(int64_t height, int64_t width, int64_t padding = 0);
// A part of the image of a random share of its area and a random aspect ratio, in that size; smoothed as above.
Transform random_resized_crop(int64_t height, int64_t width, double least_area = 0.08, double most_area = 1,
                              double most_ratio = 4.0 / 3);
Transform random_flip(double probability = 0.5);  // left and right
// Brightness, contrast and saturation (of 3 channels), each times a number in [1 - x, 1 + x]; f32, in [0, 1]
// afterwards.
Transform random_colour(double brightness, double contrast = 0, double saturation = 0);
// A square of zeros around a random pixel, cut at the borders: DeVries and Taylor 2017, "Improved Regularization of
// Convolutional Neural Networks with Cutout".
Transform cutout(int64_t size);
// By name, as a configuration says it: "resize 64 64", "random_flip 0.5", "normalise 0.5 0.25" ...; ValueError that
// lists the known ones.
Transform parse_transform(const std::string& text);

struct Statistics {
  std::vector<double> mean, deviation;
};
// Of each channel over the first `limit` examples (0: all), of images as to_float() gives them.
Statistics channel_statistics(const Dataset& images, int64_t limit = 0);

}  // namespace heddle::data
