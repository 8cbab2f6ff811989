#include "heddle/distributed/local_transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
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

// Messages that were sent and not yet received, by (sender, receiver, tag), and what ranks do where one is lost.
struct LocalWorld::Mail {
  using Key = std::tuple<int, int, int>;
  int ranks = 0;
  std::mutex mutex;
  std::map<Key, std::deque<std::vector<std::byte>>> messages;
  std::condition_variable changed;
  std::vector<bool> lost, said;  // by rank; what was said in agree()
  bool revoked = false, all_yes = true;
  std::vector<int> left;       // that shrink(); none before the first does
  std::shared_ptr<Mail> next;  // theirs

  explicit Mail(int count) : ranks(count), lost(static_cast<size_t>(count)), said(static_cast<size_t>(count)) {}
  bool is_lost(int rank) const { return lost[static_cast<size_t>(rank)]; }
  bool all_said() const {
    for (int rank = 0; rank < ranks; ++rank)
      if (!is_lost(rank) && !said[static_cast<size_t>(rank)]) return false;
    return true;
  }

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
  void make_next() {
    for (int rank = 0; rank < ranks; ++rank)
      if (!is_lost(rank)) left.push_back(rank);
    next = std::make_shared<Mail>(static_cast<int>(left.size()));
  }
};

class LocalWorld::Endpoint final : public Transport {
 public:
  Endpoint(std::shared_ptr<Mail> mail, int rank) : mail_(std::move(mail)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return mail_->ranks; }
  std::string name() const override { return "threads"; }

  Message send(int to, int tag, std::span<const std::byte> bytes) override {
    check(rank_);
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
    check(rank_);
    const Mail::Key key = found->second.key;
    deliver(key);
    if (!open_.contains(message)) return true;
    check(std::get<0>(key));
    return false;
  }
  void push() override { check(rank_); }
  void give_up() noexcept override {}

  void withdraw() override {
    open_.clear();
    waiting_.clear();
    const std::lock_guard lock(mail_->mutex);
    if (!mail_->is_lost(rank_)) mail_->revoked = true;
  }
  bool agree(bool yes, double limit_seconds) override {
    std::unique_lock lock(mail_->mutex);
    refuse_lost();
    mail_->said[static_cast<size_t>(rank_)] = true;
    mail_->all_yes = mail_->all_yes && yes;
    mail_->changed.notify_all();
    if (!mail_->changed.wait_for(lock, std::chrono::duration<double>(limit_seconds), [&] { return mail_->all_said(); }))
      throw CommunicationTimeout(fmt::format("[local] rank {}: ranks did not agree", rank_));
    return mail_->all_yes;
  }
  void shrink() override {
    std::shared_ptr<Mail> next;
    {
      const std::lock_guard lock(mail_->mutex);
      refuse_lost();
      if (!mail_->next) mail_->make_next();
      next = mail_->next;
      const std::vector<int>& left = mail_->left;
      rank_ = static_cast<int>(std::find(left.begin(), left.end(), rank_) - left.begin());
    }
    mail_ = std::move(next);
  }

 private:
  struct Receive {
    Mail::Key key;
    std::span<std::byte> bytes;
  };
  static constexpr Message sent = 0;

  void refuse_lost() const {
    if (mail_->is_lost(rank_)) throw CommunicationError("[local] this rank is lost");
  }
  // Whether there is anything to hope for from that rank.
  void check(int from) const {
    const std::lock_guard lock(mail_->mutex);
    refuse_lost();
    if (mail_->revoked) throw CommunicationError(fmt::format("[local] rank {}: the world was revoked", rank_));
    if (mail_->is_lost(from)) throw CommunicationError(fmt::format("[local] rank {}: rank {} is lost", rank_, from));
  }

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

LocalWorld::LocalWorld(int ranks) : mail_(std::make_shared<Mail>(std::max(ranks, 0))) {
  if (ranks < 1) throw ValueError(fmt::format("[local_world] a world has at least one rank, not {}", ranks));
}

LocalWorld::~LocalWorld() = default;

std::unique_ptr<Transport> LocalWorld::transport(int rank) const {
  if (rank < 0 || rank >= mail_->ranks)
    throw ValueError(fmt::format("[local_world] rank {} is not below {}", rank, mail_->ranks));
  return std::make_unique<Endpoint>(mail_, rank);
}

// In each of the worlds that it had a part in.
void LocalWorld::lose(int rank) const {
  for (std::shared_ptr<Mail> mail = mail_, next; mail; mail = next) {
    const std::lock_guard lock(mail->mutex);
    mail->lost.at(static_cast<size_t>(rank)) = true;
    mail->changed.notify_all();
    rank = static_cast<int>(std::find(mail->left.begin(), mail->left.end(), rank) - mail->left.begin());
    if (rank == static_cast<int>(mail->left.size())) return;
    next = mail->next;
  }
}

}  // namespace heddle::distributed
