// Part of every group: what somebody tuned on this machine does not change what the tests run.
#include <cstdlib>

namespace {

[[gnu::constructor(200)]] void ignore_the_users_tuning() { setenv("HEDDLE_TUNING", "", 0); }

}  // namespace
