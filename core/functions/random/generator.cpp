#include "heddle/core/functions/random/generator.h"

#include "heddle/core/functions/random/generator_scope.h"

namespace heddle {
namespace {

Generator& of_process() {
  static Generator generator;
  return generator;
}

}  // namespace

Generator& default_generator() {
  Generator* const of_scope = GeneratorScope::active();
  return of_scope != nullptr ? *of_scope : of_process();
}

void manual_seed(uint64_t seed) { default_generator() = {seed, 0}; }

}  // namespace heddle
