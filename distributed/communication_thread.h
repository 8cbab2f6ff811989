// CommunicationThread: the one thread of a process that calls the transport, and polls it while calls are under way.
//
// Purpose: MPI makes progress only inside of its calls, and one thread that makes them all is what every MPI can serve.
// Invariants: calls run side by side, started in the order of submit(). After a failure the world is broken: no call of
// the transport follows, and each call, under way or to come, ends with that failure's text. The destructor waits for
// the calls under way. Errors: of `open`, from the constructor. Thread safety: submit() from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "heddle/distributed/running_call.h"
#include "heddle/distributed/ticket_state.h"
#include "heddle/distributed/transport.h"
#include "heddle/distributed/world_options.h"

namespace heddle::distributed {

class CommunicationThread {
 public:
  // `open` runs on the thread.
  CommunicationThread(std::function<std::unique_ptr<Transport>()> open, const WorldOptions& options);
  ~CommunicationThread();
  CommunicationThread(const CommunicationThread&) = delete;
  CommunicationThread& operator=(const CommunicationThread&) = delete;

  void submit(Request request);
  // Breaks the world from this side.
  void give_up();
  uint64_t bytes_sent() const { return bytes_sent_; }
  double limit_seconds() const { return options_.limit_seconds; }

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& name() const { return name_; }

 private:
  void run(const std::function<std::unique_ptr<Transport>()>& open);
  bool open_transport(const std::function<std::unique_ptr<Transport>()>& open);
  void serve();
  bool take_new();
  void push();
  void start(Request request);
  bool progress();
  void advance(RunningCall& call, bool& any);
  void check_limit(const RunningCall& call) const;
  void finish(RunningCall& call, Failure failure);
  void break_world(const std::string& why);

  const WorldOptions options_;
  int rank_ = 0, size_ = 1;  // written before opened_
  std::string name_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> submitted_;
  bool opened_ = false, stopping_ = false, given_up_ = false;
  std::exception_ptr opening_failure_;
  std::atomic<uint64_t> bytes_sent_{0};

  // The thread's own.
  std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<RunningCall>> running_;
  std::deque<Request> waiting_;  // behind as many as may run at once
  std::vector<std::unique_ptr<Scratch>> scratches_;
  std::string broken_;  // why; empty: it is not

  std::thread thread_;
};

}  // namespace heddle::distributed
