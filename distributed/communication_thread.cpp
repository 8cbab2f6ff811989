#include "heddle/distributed/communication_thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "heddle/core/base/seconds_since.h"
#include "heddle/core/base/system/threads.h"
#include "heddle/distributed/errors.h"

namespace heddle::distributed {
namespace {

using namespace std::chrono_literals;

constexpr size_t most_at_once = 256;  // far below the numbers that tags tell apart (running_call.cpp)
// How long an answer is polled for without a pause: the others, or the device, may need this processor. Then pauses are
// a part of the time that was waited, so that what they add to it is little, and polling takes little of the processor.
constexpr double spinning_seconds = 30e-6, least_pause = 10e-6, most_pause = 500e-6, part_of_wait = 1.0 / 8;
// In which the threads of all ranks that are left answer, which nothing holds up.
constexpr double agreeing_seconds = 20;
// A message that was handed over may need a last push by its sender, who waits for nothing any more.
constexpr auto idle_pause = 20ms;

Failure failure_of(const std::exception& error) {
  if (dynamic_cast<const MismatchError*>(&error) != nullptr) return {FailureKind::mismatch, error.what()};
  if (dynamic_cast<const CommunicationTimeout*>(&error) != nullptr) return {FailureKind::timeout, error.what()};
  return {FailureKind::communication, error.what()};
}

}  // namespace

CommunicationThread::CommunicationThread(std::function<std::unique_ptr<Transport>()> open, const WorldOptions& options)
    : options_(options), thread_([this, open = std::move(open)] { run(open); }) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return opened_; });
  if (!opening_failure_) return;
  lock.unlock();
  thread_.join();
  std::rethrow_exception(opening_failure_);
}

CommunicationThread::~CommunicationThread() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void CommunicationThread::submit(Request request) {
  {
    const std::lock_guard lock(mutex_);
    submitted_.push_back(std::move(request));
  }
  changed_.notify_all();
}

void CommunicationThread::give_up() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
  }
  changed_.notify_all();
}

void CommunicationThread::run(const std::function<std::unique_ptr<Transport>()>& open) {
  if (!open_transport(open)) return;
  os::wake_on_time();
  serve();
  if (!broken_.empty()) transport_->give_up();
  transport_.reset();
}

bool CommunicationThread::open_transport(const std::function<std::unique_ptr<Transport>()>& open) {
  std::exception_ptr failure;
  try {
    transport_ = open();
    first_life_ = life_ = {.generation = 0, .rank = transport_->rank(), .size = transport_->size()};
    name_ = transport_->name();
  } catch (...) {
    failure = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  opening_failure_ = failure;
  opened_ = true;
  changed_.notify_all();
  return failure == nullptr;
}

void CommunicationThread::serve() {
  auto last = std::chrono::steady_clock::now();  // when something happened
  while (take_new()) {
    if (progress()) {
      last = std::chrono::steady_clock::now();
      continue;
    }
    const double waited = seconds_since(last);
    if (waited < spinning_seconds) continue;
    std::this_thread::sleep_for(
        std::chrono::duration<double>(std::clamp(waited * part_of_wait, least_pause, most_pause)));
  }
}

// Sleeps while there is nothing to do; false once the thread shall end and every call has.
bool CommunicationThread::take_new() {
  std::unique_lock lock(mutex_);
  while (running_.empty() && waiting_.empty() && submitted_.empty()) {
    if (given_up_) break_world("this rank gave up");
    if (to_be_mended()) {
      lock.unlock();
      mend();
      lock.lock();
      continue;
    }
    if (stopping_) return false;
    changed_.wait_for(lock, idle_pause);
    push();
  }
  if (given_up_) break_world("this rank gave up");
  for (Request& request : submitted_) waiting_.push_back(std::move(request));
  submitted_.clear();
  return true;
}

void CommunicationThread::push() {
  if (!broken_.empty()) return;
  try {
    transport_->push();
  } catch (const std::exception& error) {
    break_world(error.what(), true);
  }
}

// The same on all members: two ranks on a third one's host are on one host.
size_t CommunicationThread::piece_bytes(const Members& members) const {
  const bool near = std::ranges::all_of(members.ranks, [&](int rank) { return transport_->same_host(rank); });
  return near ? options_.piece_bytes : std::min(options_.piece_bytes, options_.far_piece_bytes);
}

void CommunicationThread::start(Request request) {
  std::unique_ptr<Scratch> scratch;
  if (scratches_.empty()) {
    scratch = std::make_unique<Scratch>();
  } else {
    scratch = std::move(scratches_.back());
    scratches_.pop_back();
  }
  const std::shared_ptr<TicketState> ticket = request.ticket;
  const std::string place = request.call.place();
  if (request.generation != life_.generation)
    return ticket->end({FailureKind::communication, fmt::format("{}: the world has lost ranks since", place)});
  if (broken_.empty()) {
    try {
      const size_t piece = piece_bytes(request.members);
      running_.push_back(std::make_unique<RunningCall>(std::move(request), *transport_, std::move(scratch), piece));
      return ticket->start();
    } catch (const std::exception& error) {
      break_world(fmt::format("{}: {}", place, error.what()), true);
    }
  }
  ticket->end({FailureKind::communication, fmt::format("{}: the world is broken: {}", place, broken_)});
}

bool CommunicationThread::progress() {
  bool any = false;
  for (; !waiting_.empty() && running_.size() < most_at_once; waiting_.pop_front(), any = true)
    start(std::move(waiting_.front()));
  for (const auto& call : running_) advance(*call, any);
  std::erase_if(running_, [](const auto& call) { return call->ended(); });
  return any;
}

void CommunicationThread::advance(RunningCall& call, bool& any) {
  if (!broken_.empty())
    return finish(call, {FailureKind::communication,
                         fmt::format("{}: the world is broken: {}", call.request().call.place(), broken_)});
  try {
    any |= call.progress();
    if (call.done()) return finish(call, {});
    check_limit(call);
  } catch (const std::exception& error) {
    const Failure failure = failure_of(error);
    break_world(error.what(), failure.kind == FailureKind::communication);
    finish(call, failure);
  }
}

void CommunicationThread::check_limit(const RunningCall& call) const {
  if (call.idle_seconds() < options_.limit_seconds) return;
  const Call& what = call.request().call;
  throw CommunicationTimeout(fmt::format("{}: rank {} waited {:g} s for {}: {}", what.place(), life_.rank,
                                         options_.limit_seconds, what.str(), call.missing()));
}

void CommunicationThread::finish(RunningCall& call, Failure failure) {
  bytes_sent_ += call.bytes_sent();
  if (broken_.empty()) scratches_.push_back(call.give_back_scratch());
  call.end(std::move(failure));
}

void CommunicationThread::break_world(const std::string& why, bool of_transport) {
  if (!broken_.empty()) return;
  broken_ = why;
  of_transport_ = of_transport;
  if (options_.survives) withdraw();
}

// Before any call under way ends: then what it reads and writes is its maker's again.
void CommunicationThread::withdraw() {
  try {
    transport_->withdraw();
  } catch (const std::exception& error) {
    unwithdrawn_ = error.what();
  }
}

void CommunicationThread::mend() {
  std::string failure = unwithdrawn_;
  try {
    if (!failure.empty())
      (void)transport_->agree(false, agreeing_seconds);
    else if (transport_->agree(of_transport_, agreeing_seconds))
      transport_->shrink();
    else
      failure = fmt::format("the run ends with a rank that failed by itself ({})", broken_);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  const std::lock_guard lock(mutex_);
  unmendable_ = failure;
  hopeless_ = !failure.empty();
  if (!hopeless_) {
    life_ = {.generation = life_.generation + 1, .rank = transport_->rank(), .size = transport_->size()};
    broken_.clear();
    scratches_.clear();
  }
  changed_.notify_all();
}

WorldLife CommunicationThread::renewed(uint64_t generation) {
  if (!options_.survives) throw CommunicationError("[world] it does not go on without a rank");
  std::unique_lock lock(mutex_);
  const auto limit = std::chrono::duration<double>(2 * agreeing_seconds);
  changed_.wait_for(lock, limit, [&] { return life_.generation > generation || !unmendable_.empty(); });
  if (life_.generation > generation) return life_;
  throw CommunicationError(fmt::format("[world] {}", unmendable_.empty() ? "no rank was lost" : unmendable_));
}

}  // namespace heddle::distributed
