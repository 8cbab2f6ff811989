#include "heddle/core/graph/watched.h"

#include <exception>
#include <list>

#include "heddle/core/base/of_this_thread.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/read_value.h"
#include "heddle/core/graph/transform.h"

namespace heddle {
namespace {

struct Check {
  uint64_t number;
  Tensor value;
  Judge judge;
  Caller caller;
};

// The thread's, in the order of watch().
struct Checks {
  std::list<Check> list;
  uint64_t next = 0;
};
Checks& checks() { return of_this_thread<Checks>(); }

// Beyond that, what has been computed is read although nobody looks at a value.
constexpr size_t most_watched = 256;

}  // namespace

void watch(const Tensor& value, Judge judge) {
  Checks& all = checks();
  const bool placeholders = ExampleScope::active() || BodyTrace::current() != nullptr;
  if (all.list.size() >= most_watched && !placeholders) {
    evaluate_pending();
    throw_watched();
  }
  all.list.push_back({all.next++, value, std::move(judge), current_caller()});
  if (eager_mode() && !placeholders) throw_watched();
}

void throw_watched() {
  std::list<Check>& list = checks().list;
  for (auto at = list.begin(); at != list.end();) {
    if (!at->value.node()->has_value()) {
      ++at;
      continue;
    }
    const Check one = std::move(*at);
    at = list.erase(at);
    const CallerScope scope(one.caller);
    one.judge(read_value(*one.value.node()));
  }
}

WatchedScope::WatchedScope() : first_(checks().next), exceptions_(std::uncaught_exceptions()) {}

WatchedScope::~WatchedScope() {
  if (std::uncaught_exceptions() > exceptions_) forget();
}

void WatchedScope::forget() const {
  checks().list.remove_if([this](const Check& check) { return check.number >= first_; });
}

std::vector<Tensor*> WatchedScope::values() const {
  std::vector<Tensor*> found;
  for (Check& check : checks().list) {
    if (check.number >= first_ && !check.value.node()->has_value()) found.push_back(&check.value);
  }
  return found;
}

}  // namespace heddle
