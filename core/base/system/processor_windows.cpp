#include "heddle/core/base/system/processor.h"

namespace heddle::os {

bool allows_tile_units() { return false; }
bool has_pair_dots() { return false; }

}  // namespace heddle::os
