#include "heddle/distributed/transport.h"

#include <fmt/format.h>

#include "heddle/distributed/errors.h"

namespace heddle::distributed {
namespace {

[[noreturn]] void refuse(const Transport& transport) {
  throw CommunicationError(fmt::format("[world] {} cannot go on without a rank", transport.name()));
}

}  // namespace

bool Transport::same_host(int) const { return true; }
void Transport::withdraw() { refuse(*this); }
bool Transport::agree(bool, double) { refuse(*this); }
void Transport::shrink() { refuse(*this); }

}  // namespace heddle::distributed
