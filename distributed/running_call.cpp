#include "heddle/distributed/running_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "heddle/core/base/seconds_since.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/distributed/errors.h"

namespace heddle::distributed {
namespace {

// How long the calls of the others are waited for once one is known to differ, so that the message lists them all.
constexpr double last_word_seconds = 2;

constexpr int header_lane = 2;
constexpr int pair_lane = 3;  // header and data of send and receive, whose order is theirs

// HEDDLE_TEST_UNCOMPARED is for who measures what comparing costs; a barrier is nothing else.
bool compares(const Call& call) {
  static const bool never = os::variable("HEDDLE_TEST_UNCOMPARED").has_value();
  return !never || call.operation == Operation::barrier;
}

}  // namespace

RunningCall::RunningCall(Request request, Transport& transport, std::unique_ptr<Scratch> scratch, size_t piece_bytes)
    : request_(std::move(request)),
      transport_(transport),
      scratch_(std::move(scratch)),
      exchange_(schedule(request_.call, request_.members, request_.buffers, *scratch_, piece_bytes)),
      pair_(request_.call.moves_to_one()),
      own_header_(header_of(request_.call)) {
  if (compares(request_.call)) exchange_headers();
  make_lines();
}

// 12 bits of the group, 13 of the number, 2 of the lane. Numbers that are 2^13 apart are never under way together.
int RunningCall::tag(int lane) const {
  const auto number = static_cast<int>(request_.call.sequence % (1 << 13));
  return (request_.group_number % (1 << 12)) << 15 | number << 2 | (pair_ ? pair_lane : lane);
}

Transport::Message RunningCall::send(int to, int lane, std::span<const std::byte> bytes) {
  bytes_sent_ += bytes.size();
  return transport_.send(to, tag(lane), bytes);
}

void RunningCall::exchange_headers() {
  const bool listens = request_.call.operation != Operation::send,
             tells = request_.call.operation != Operation::receive;
  const Members& members = request_.members;
  for (size_t i = 0; i < members.count(); ++i) {
    if (i == members.me) continue;
    if (tells) header_sends_.push_back(send(members.ranks[i], header_lane, own_header_));
    if (listens) peers_.push_back({.rank = members.ranks[i]});
  }
  for (Peer& peer : peers_) peer.under_way = transport_.receive(peer.rank, tag(header_lane), peer.header);
}

void RunningCall::make_lines() {
  std::vector<Task>& tasks = exchange_.tasks();
  ready_.resize(tasks.size());
  left_ = tasks.size();
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].kind == Task::Kind::work) continue;
    Line& line = lines_[{tasks[i].kind, tasks[i].peer, tasks[i].lane}];
    line.tasks.push_back(i);
    line.open = tasks[i].kind == Task::Kind::send || !compares(request_.call);
  }
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (tasks[i].waits == 0) make_ready(i);
  }
}

void RunningCall::make_ready(size_t task) {
  const Task& made = exchange_.tasks()[task];
  ready_[task] = true;
  if (made.kind == Task::Kind::work)
    works_.push_back(task);
  else
    start(lines_.at({made.kind, made.peer, made.lane}));
}

void RunningCall::start(Line& line) {
  while (line.open && line.next < line.tasks.size() && ready_[line.tasks[line.next]]) {
    const size_t task = line.tasks[line.next++];
    const Task& made = exchange_.tasks()[task];
    const bool sends = made.kind == Task::Kind::send;
    flying_.push_back({task, sends ? send(made.peer, made.lane, made.bytes)
                                   : transport_.receive(made.peer, tag(made.lane), made.bytes)});
  }
}

void RunningCall::complete(size_t task) {
  --left_;
  for (const size_t next : exchange_.tasks()[task].then) {
    if (--exchange_.tasks()[next].waits == 0) make_ready(next);
  }
}

bool RunningCall::hear_headers() {
  bool any = false;
  for (Peer& peer : peers_) {
    if (!peer.under_way || !transport_.finished(*peer.under_way)) continue;
    any = true;
    heard(peer);
  }
  const auto sent = [&](Transport::Message message) { return transport_.finished(message); };
  std::erase_if(header_sends_, sent);
  check_agreement();
  return any;
}

void RunningCall::heard(Peer& peer) {
  peer.under_way.reset();
  peer.heard = true;
  peer.call = call_of(peer.header);
  if (!peer.call || !agree(*peer.call, request_.call)) {
    if (!disagreed_) disagreed_ = Clock::now();
    return;
  }
  for (auto& [key, line] : lines_) {
    if (std::get<0>(key) != Task::Kind::receive || std::get<1>(key) != peer.rank) continue;
    line.open = true;
    start(line);
  }
}

void RunningCall::check_agreement() {
  if (!disagreed_) return;
  const bool all = std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) { return peer.heard; });
  if (all || seconds_since(*disagreed_) > last_word_seconds) fail_mismatch();
}

void RunningCall::fail_mismatch() const {
  std::vector<RankCall> calls = {{request_.members.ranks[request_.members.me], request_.call}};
  for (const Peer& peer : peers_) {
    if (peer.heard) calls.push_back({peer.rank, peer.call});
  }
  std::sort(calls.begin(), calls.end(), [](const RankCall& a, const RankCall& b) { return a.rank < b.rank; });
  throw MismatchError(fmt::format("{}: ranks made different calls: {}", request_.call.place(), list_calls(calls)));
}

// Messages that have ended. What their end starts is appended behind those looked at. Most looks find nothing, and take
// no memory.
bool RunningCall::land() {
  std::vector<size_t> landed;
  std::erase_if(flying_, [&](const Flying& each) {
    const bool over = transport_.finished(each.message);
    if (over) landed.push_back(each.task);
    return over;
  });
  for (const size_t task : landed) complete(task);
  return !landed.empty();
}

bool RunningCall::work() {
  const bool any = !works_.empty();
  while (!works_.empty()) {
    const size_t task = works_.front();
    works_.pop_front();
    exchange_.tasks()[task].work();
    complete(task);
  }
  return any;
}

bool RunningCall::progress() {
  bool any = hear_headers();
  any |= land();
  any |= work();
  if (any) last_progress_ = Clock::now();
  return any;
}

bool RunningCall::done() const {
  const auto heard = [](const Peer& peer) { return peer.heard; };
  return left_ == 0 && header_sends_.empty() && std::all_of(peers_.begin(), peers_.end(), heard);
}

void RunningCall::end(Failure failure) {
  ended_ = true;
  request_.ticket->end(std::move(failure));
}

double RunningCall::idle_seconds() const { return seconds_since(last_progress_); }

std::string RunningCall::missing() const {
  std::vector<int> silent;
  for (const Peer& peer : peers_) {
    if (!peer.heard) silent.push_back(peer.rank);
  }
  if (!silent.empty()) {
    return fmt::format("{} {} not made {}", list_ranks(silent), silent.size() == 1 ? "has" : "have",
                       pair_ ? "its send" : "this call");
  }
  std::set<int> sends, receives;
  for (const auto& [key, line] : lines_) {
    const bool over =
        line.next == line.tasks.size() && std::none_of(flying_.begin(), flying_.end(), [&](const Flying& f) {
          const Task& task = exchange_.tasks()[f.task];
          return task.kind == std::get<0>(key) && task.peer == std::get<1>(key);
        });
    if (!over) (std::get<0>(key) == Task::Kind::send ? sends : receives).insert(std::get<1>(key));
  }
  if (!receives.empty()) return fmt::format("data of {} has not come", list_ranks({receives.begin(), receives.end()}));
  if (!sends.empty()) return fmt::format("{} took no data", list_ranks({sends.begin(), sends.end()}));
  return "nobody is waited for";
}

}  // namespace heddle::distributed
