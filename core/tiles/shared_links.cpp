#include "heddle/core/tiles/shared_links.h"

#include <utility>

namespace heddle {
namespace {

thread_local bool links_are_shared = false;

}  // namespace

SharedLinksScope::SharedLinksScope(bool shared) : before_(std::exchange(links_are_shared, shared)) {}
SharedLinksScope::~SharedLinksScope() { links_are_shared = before_; }
bool SharedLinksScope::active() { return links_are_shared; }

}  // namespace heddle
