#include "heddle/core/compile/hand_over.h"

#include <utility>

namespace heddle {
namespace {

thread_local Made* made_of_thread = nullptr;

}  // namespace

HandOverScope::HandOverScope(Made made) : made_(std::move(made)), outer_(std::exchange(made_of_thread, &made_)) {}

HandOverScope::~HandOverScope() { made_of_thread = outer_; }

Made HandOverScope::take() {
  Made* const made = std::exchange(made_of_thread, nullptr);
  return made != nullptr ? std::move(*made) : Made();
}

}  // namespace heddle
