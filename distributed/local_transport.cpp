#include "heddle/distributed/local_transport.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/distributed/errors.h"

namespace heddle::distributed {

// Messages that were sent and not yet received, by (sender, receiver, tag).
struct LocalWorld::Mail {
  using Key = std::tuple<int, int, int>;
  int ranks = 0;
  std::mutex mutex;
  std::map<Key, std::deque<std::vector<std::byte>>> messages;

  void put(const Key& key, std::span<const std::byte> bytes) {
    std::vector<std::byte> copy(bytes.begin(), bytes.end());
    const std::lock_guard lock(mutex);
    messages[key].push_back(std::move(copy));
  }
  bool take(const Key& key, std::vector<std::byte>& message) {
    const std::lock_guard lock(mutex);
    const auto found = messages.find(key);
    if (found == messages.end()) return false;
    message = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) messages.erase(found);
    return true;
  }
};

class LocalWorld::Endpoint final : public Transport {
 public:
  Endpoint(std::shared_ptr<Mail> mail, int rank) : mail_(std::move(mail)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return mail_->ranks; }
  std::string name() const override { return "threads"; }

  Message send(int to, int tag, std::span<const std::byte> bytes) override {
    mail_->put({rank_, to, tag}, bytes);
    return sent;
  }
  Message receive(int from, int tag, std::span<std::byte> bytes) override {
    const Message message = next_++;
    waiting_[{from, rank_, tag}].push_back(message);
    open_[message] = {{from, rank_, tag}, bytes};
    return message;
  }
  bool finished(Message message) override {
    const auto found = open_.find(message);
    if (found == open_.end()) return true;
    deliver(Mail::Key(found->second.key));  // a copy: what is delivered is forgotten
    return !open_.contains(message);
  }
  void push() override {}
  void give_up() noexcept override {}

 private:
  struct Receive {
    Mail::Key key;
    std::span<std::byte> bytes;
  };
  static constexpr Message sent = 0;

  // What has come for that key goes to the receives in their order.
  void deliver(const Mail::Key& key) {
    std::deque<Message>& waiting = waiting_[key];
    std::vector<std::byte> message;
    while (!waiting.empty() && mail_->take(key, message)) {
      const std::span<std::byte> target = open_.at(waiting.front()).bytes;
      if (target.size() != message.size()) {
        throw CommunicationError(fmt::format("[receive] rank {} expects {} bytes of rank {}, which sent {}", rank_,
                                             target.size(), std::get<0>(key), message.size()));
      }
      if (!message.empty()) std::memcpy(target.data(), message.data(), message.size());
      open_.erase(waiting.front());
      waiting.pop_front();
    }
    if (waiting.empty()) waiting_.erase(key);
  }

  std::shared_ptr<Mail> mail_;
  int rank_;
  Message next_ = sent + 1;
  std::map<Message, Receive> open_;
  std::map<Mail::Key, std::deque<Message>> waiting_;
};

LocalWorld::LocalWorld(int ranks) : mail_(std::make_shared<Mail>()) {
  if (ranks < 1) throw ValueError(fmt::format("[local_world] a world has at least one rank, not {}", ranks));
  mail_->ranks = ranks;
}

LocalWorld::~LocalWorld() = default;

std::unique_ptr<Transport> LocalWorld::transport(int rank) const {
  if (rank < 0 || rank >= mail_->ranks)
    throw ValueError(fmt::format("[local_world] rank {} is not below {}", rank, mail_->ranks));
  return std::make_unique<Endpoint>(mail_, rank);
}

}  // namespace heddle::distributed
