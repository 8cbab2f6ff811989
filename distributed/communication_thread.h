// CommunicationThread: the one thread of a process that calls the transport, and polls it while calls are under way.
//
// Purpose: MPI makes progress only inside of its calls, and one thread that makes them all is what every MPI can serve.
// Invariants: calls run side by side, started in the order of submit(). After a failure the world is broken: no call of
// the transport follows, and each call, under way or to come, ends with that failure's text. The destructor waits for
// the calls under way. Where the world survives (WorldOptions) a failure of the transport breaks it for a moment: when
// all calls under way have ended, the threads of all ranks that are left agree on going on and shrink the transport,
// and calls of groups that are made from then on run. No rank's own thread is waited for, since it may compute for
// long. A rank that gives up, or that met another failure, says no, and the world stays broken on all. Errors: of
// `open`, from the constructor. Thread safety: submit() from any thread.
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
  // What the world is since it was mended, which is waited for; `generation` was before. CommunicationError where it
  // stays broken.
  WorldLife renewed(uint64_t generation);
  uint64_t bytes_sent() const { return bytes_sent_; }
  double limit_seconds() const { return options_.limit_seconds; }

  // At first.
  const WorldLife& life() const { return first_life_; }
  const std::string& name() const { return name_; }

 private:
  void run(const std::function<std::unique_ptr<Transport>()>& open);
  bool open_transport(const std::function<std::unique_ptr<Transport>()>& open);
  void serve();
  bool take_new();
  void push();
  void start(Request request);
  size_t piece_bytes(const Members& members) const;
  bool progress();
  void advance(RunningCall& call, bool& any);
  void check_limit(const RunningCall& call) const;
  void finish(RunningCall& call, Failure failure);
  void break_world(const std::string& why, bool of_transport = false);
  void withdraw();
  bool to_be_mended() const { return options_.survives && !broken_.empty() && !hopeless_; }
  void mend();

  const WorldOptions options_;
  WorldLife first_life_;  // both written before opened_
  std::string name_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Request> submitted_;
  bool opened_ = false, stopping_ = false, given_up_ = false;
  std::exception_ptr opening_failure_;
  WorldLife life_;
  std::string unmendable_;  // why the world stays broken; empty: it does not
  std::atomic<uint64_t> bytes_sent_{0};

  // The thread's own.
  std::unique_ptr<Transport> transport_;
  std::vector<std::unique_ptr<RunningCall>> running_;
  std::deque<Request> waiting_;  // behind as many as may run at once
  std::vector<std::unique_ptr<Scratch>> scratches_;
  std::string broken_;         // why; empty: it is not
  bool of_transport_ = false;  // only then the others go on
  std::string unwithdrawn_;    // why messages may still touch their bytes
  bool hopeless_ = false;      // it is not mended any more

  std::thread thread_;
};

}  // namespace heddle::distributed
