#include "heddle/core/base/system/processor.h"

namespace heddle::os {

bool allows_tile_units() { return false; }

}  // namespace heddle::os
