#include "heddle/core/functions/random/generator.h"

namespace heddle {

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator() = {seed, 0}; }

}  // namespace heddle
