#include "heddle/core/functions/random/generator_scope.h"

#include <utility>

namespace heddle {
namespace {

thread_local Generator* of_scope = nullptr;

}  // namespace

GeneratorScope::GeneratorScope(Generator& generator) : before_(std::exchange(of_scope, &generator)) {}
GeneratorScope::~GeneratorScope() { of_scope = before_; }

Generator* GeneratorScope::active() { return of_scope; }

}  // namespace heddle
