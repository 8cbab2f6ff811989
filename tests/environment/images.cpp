// Part of every group: what runs is an image that was written to bytes and read back (HEDDLE_IMAGES_THROUGH_BYTES), in
// the programs that tests start as well.
#include <cstdlib>

namespace {

[[gnu::constructor(200)]] void images_through_bytes() { setenv("HEDDLE_IMAGES_THROUGH_BYTES", "1", 0); }

}  // namespace
