// A survey of images: each is read once, so that what cannot be read is known before anything is trained.
//
// Invariants: the result does not depend on how many threads read. Errors: IoError that names the first broken image
// and how many there are, unless they are to be left out; those of the host's memory. Thread safety: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/data/dataset.h"
#include "heddle/data/transforms.h"

namespace heddle::data {

struct ImageSurvey {
  std::vector<int64_t> whole;       // numbers of those that can be read
  std::vector<std::string> broken;  // what is wrong with the others
  // Of each channel, every image counting the same whatever its size; a deviation is at least 1 / 255, which images of
  // one colour would not have.
  Statistics statistics;
};

// By several threads. `skip`: broken images are left out; else the first is an error.
ImageSurvey survey_images(const Dataset& images, bool skip);

}  // namespace heddle::data
