// RunningCall: a call between its start and its end, on the communication thread.
//
// Invariants: ranks of a call compare what they asked for (call.h) before data of one is received by the other; data is
// sent at once. Nothing here waits. Errors: MismatchError that lists all ranks' calls, as soon as one differs and the
// others have come or had their time; CommunicationError of the transport. Thread safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/distributed/call.h"
#include "heddle/distributed/exchange.h"
#include "heddle/distributed/schedules.h"
#include "heddle/distributed/ticket_state.h"
#include "heddle/distributed/transport.h"

namespace heddle::distributed {

struct Request {
  Call call;
  Members members;  // of the group; of send and receive, sender and receiver
  Buffers buffers;
  int group_number = 0;
  uint64_t generation = 0;  // of the world that the group is of (World::renew())
  std::shared_ptr<TicketState> ticket;
};

class RunningCall {
 public:
  RunningCall(Request request, Transport& transport, std::unique_ptr<Scratch> scratch, size_t piece_bytes);

  // What can be done now; whether there was anything.
  bool progress();
  bool done() const;
  double idle_seconds() const;  // since there was anything
  // "rank 3 has not made this call", "data of ranks 1 and 2 has not come".
  std::string missing() const;

  // Its ticket ends.
  void end(Failure failure);
  bool ended() const { return ended_; }

  uint64_t bytes_sent() const { return bytes_sent_; }

  const Request& request() const { return request_; }
  // Of a call that is done.
  std::unique_ptr<Scratch> give_back_scratch() { return std::move(scratch_); }

 private:
  using Clock = std::chrono::steady_clock;
  // Messages of one direction with one rank on one lane: they start in their order.
  struct Line {
    std::vector<size_t> tasks;
    size_t next = 0;
    bool open = true;  // those from a rank whose call has not come are not
  };
  using LineKey = std::tuple<Task::Kind, int, int>;
  struct Peer {
    int rank = 0;
    CallHeader header{};
    std::optional<Transport::Message> under_way;  // the header's
    std::optional<Call> call;
    bool heard = false;
  };
  struct Flying {
    size_t task;
    Transport::Message message;
  };

  int tag(int lane) const;
  Transport::Message send(int to, int lane, std::span<const std::byte> bytes);
  void exchange_headers();
  void make_lines();
  bool hear_headers();
  void heard(Peer& peer);
  void check_agreement();
  [[noreturn]] void fail_mismatch() const;
  bool land();
  bool work();
  void start(Line& line);
  void make_ready(size_t task);
  void complete(size_t task);

  Request request_;
  Transport& transport_;
  std::unique_ptr<Scratch> scratch_;
  Exchange exchange_;
  bool pair_;
  bool ended_ = false;
  CallHeader own_header_;
  std::vector<Peer> peers_;  // whose calls are compared with this one's
  std::vector<Transport::Message> header_sends_;
  std::map<LineKey, Line> lines_;
  std::vector<bool> ready_;
  std::deque<size_t> works_;
  std::vector<Flying> flying_;
  size_t left_ = 0;  // tasks
  uint64_t bytes_sent_ = 0;
  Clock::time_point last_progress_ = Clock::now();
  std::optional<Clock::time_point> disagreed_;
};

}  // namespace heddle::distributed
