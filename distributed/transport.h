// Transport: carries messages of bytes between the ranks of a world.
//
// Invariants: messages of one sender with one tag to one receiver arrive in the order in which they were sent, and are
// received in the order in which receive() was called. The bytes belong to the caller and stay where they are until
// finished() said so. No call waits for another rank, but agree(), shrink() and the destructor may. Errors:
// CommunicationError, from any call; the transport is of no use after it, or, where its ranks may be lost, until it was
// shrunk. Thread safety: none; one thread makes all calls, creation and end included.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace heddle::distributed {

class Transport {
 public:
  // A message under way; the number is free again once it has finished.
  using Message = size_t;

  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  // "Open MPI v4.1.4", "threads".
  virtual std::string name() const = 0;
  // Whether that rank's process is on this one's host, so that messages go through memory; of three ranks on one host
  // each says so of both others.
  virtual bool same_host(int rank) const;

  // At most `largest_message` bytes; a tag is below `tags`. The receiver names as many bytes as were sent.
  virtual Message send(int to, int tag, std::span<const std::byte> bytes) = 0;
  virtual Message receive(int from, int tag, std::span<std::byte> bytes) = 0;
  // True once the bytes of a send may change, or those of a receive are there.
  virtual bool finished(Message message) = 0;

  // Called now and then while no message is under way here: what was sent may not have left yet.
  virtual void push() = 0;
  // The world is broken: the end waits for nobody.
  virtual void give_up() noexcept = 0;

  // ---- of worlds that go on without ranks that were lost (WorldOptions::survives); CommunicationError of others
  // After a failure: from here on no message touches its bytes here, and those of the other ranks fail as well.
  virtual void withdraw();
  // Whether all ranks that are left say yes. Each of them calls this behind withdraw(); CommunicationTimeout where one
  // does not within the limit.
  virtual bool agree(bool yes, double limit_seconds);
  // The world becomes that of the ranks that are left, in their order, all of which call this behind agree().
  virtual void shrink();

  static constexpr size_t largest_message = size_t{1} << 30;
  static constexpr int tags = 1 << 27;
};

}  // namespace heddle::distributed
