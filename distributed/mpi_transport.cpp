#include "heddle/distributed/mpi_transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/core/base/hash.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/distributed/errors.h"
#include "heddle/distributed/mpi_functions.h"

namespace heddle::distributed {
namespace {

constexpr int funneled = 1;         // MPI_THREAD_FUNNELED: the thread that starts it makes all calls
constexpr int process_failed = 75;  // MPI_ERR_PROC_FAILED of Open MPI: an agreement that a lost rank had no part in
// How long messages of a world that is given up may take to end, and those of one that is over to leave.
constexpr double withdrawing_seconds = 5, leaving_seconds = 0.2;
constexpr auto look_pause = std::chrono::microseconds(200);

template <class Handle>
class MpiTransport final : public Transport {
 public:
  MpiTransport(const MpiFunctions<Handle>& functions, const Launch& launch, bool survives)
      : mpi_(functions), survives_(survives) {
    name_ = library_version();
    refuse_second_start();
    int provided = 0;
    check(mpi_.init_thread(nullptr, nullptr, funneled, &provided), "MPI_Init_thread");
    check(mpi_.comm_set_errhandler(mpi_.world, mpi_.errors_return), "MPI_Comm_set_errhandler");
    check(mpi_.comm_rank(mpi_.world, &rank_), "MPI_Comm_rank");
    check(mpi_.comm_size(mpi_.world, &size_), "MPI_Comm_size");
    check_launcher(launch);
    check_tags();
    check(mpi_.comm_dup(mpi_.world, &comm_), "MPI_Comm_dup");
    check(mpi_.comm_set_errhandler(comm_, mpi_.errors_return), "MPI_Comm_set_errhandler");
    learn_hosts();
  }
  ~MpiTransport() override {
    if (survives_)
      leave();
    else if (!given_up_)
      mpi_.finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return name_; }
  bool same_host(int rank) const override {
    return hosts_[static_cast<size_t>(rank)] == hosts_[static_cast<size_t>(rank_)];
  }

  Message send(int to, int tag, std::span<const std::byte> bytes) override {
    const Message message = new_message();
    check(mpi_.isend(bytes.data(), static_cast<int>(bytes.size()), mpi_.byte, to, tag, comm_, &open_[message]),
          "MPI_Isend");
    return message;
  }
  Message receive(int from, int tag, std::span<std::byte> bytes) override {
    const Message message = new_message();
    check(mpi_.irecv(bytes.data(), static_cast<int>(bytes.size()), mpi_.byte, from, tag, comm_, &open_[message]),
          "MPI_Irecv");
    return message;
  }
  bool finished(Message message) override {
    int over = 0;
    check(mpi_.test(&open_[message], &over, mpi_.status_ignore), "MPI_Test");
    if (over != 0) free_.push_back(message);
    return over != 0;
  }
  void push() override {
    int any = 0;
    check(mpi_.iprobe(mpi_.any_source, mpi_.any_tag, comm_, &any, mpi_.status_ignore), "MPI_Iprobe");
  }
  void give_up() noexcept override { given_up_ = true; }

  // Revoked, every message ends, with an error or without.
  void withdraw() override {
    check(mpi_.comm_revoke(comm_), "MPIX_Comm_revoke");
    std::vector<bool> open(open_.size(), true);
    for (const Message message : free_) open[message] = false;
    const auto start = std::chrono::steady_clock::now();
    for (Message message = 0; message < open_.size(); ++message) {
      int over = open[message] ? 0 : 1;
      while (over == 0 && mpi_.test(&open_[message], &over, mpi_.status_ignore) == 0) {
        if (over == 0 && seconds_since(start) > withdrawing_seconds)
          throw CommunicationError(fmt::format("[mpi] rank {}: a message does not end", rank_));
        if (over == 0) std::this_thread::sleep_for(look_pause);
      }
    }
    open_.clear();
    free_.clear();
  }
  bool agree(bool yes, double limit_seconds) override {
    int all = yes ? 1 : 0;
    Handle request{};
    check(mpi_.comm_iagree(comm_, &all, &request), "MPIX_Comm_iagree");
    const auto start = std::chrono::steady_clock::now();
    for (int over = 0; over == 0;) {
      const int error = mpi_.test(&request, &over, mpi_.status_ignore);
      if (error == process_failed) break;
      check(error, "MPIX_Comm_iagree");
      if (over == 0 && seconds_since(start) > limit_seconds)
        throw CommunicationTimeout(
            fmt::format("[mpi] rank {}: ranks did not agree within {:g} s on going on", rank_, limit_seconds));
      if (over == 0) std::this_thread::sleep_for(look_pause);
    }
    return all != 0;
  }
  void shrink() override {
    Handle left{};
    check(mpi_.comm_shrink(comm_, &left), "MPIX_Comm_shrink");
    keep_hosts_of(left);
    comm_ = left;
    check(mpi_.comm_set_errhandler(comm_, mpi_.errors_return), "MPI_Comm_set_errhandler");
    check(mpi_.comm_rank(comm_, &rank_), "MPI_Comm_rank");
    check(mpi_.comm_size(comm_, &size_), "MPI_Comm_size");
  }

 private:
  void learn_hosts() {
    const uint64_t mine = hash_string(os::host_name());
    hosts_.resize(static_cast<size_t>(size_));
    constexpr int bytes = sizeof mine;
    check(mpi_.allgather(&mine, bytes, mpi_.byte, hosts_.data(), bytes, mpi_.byte, comm_), "MPI_Allgather");
  }
  // Of the ranks that are left, in their order. Nobody is asked: another rank may be lost meanwhile.
  void keep_hosts_of(Handle left) {
    int count = 0;
    Handle before{}, behind{};
    check(mpi_.comm_size(left, &count), "MPI_Comm_size");
    check(mpi_.comm_group(comm_, &before), "MPI_Comm_group");
    check(mpi_.comm_group(left, &behind), "MPI_Comm_group");
    std::vector<int> ranks(static_cast<size_t>(count)), were(ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    check(mpi_.group_translate_ranks(behind, count, ranks.data(), before, were.data()), "MPI_Group_translate_ranks");
    std::vector<uint64_t> hosts;
    for (const int rank : were) hosts.push_back(hosts_.at(static_cast<size_t>(rank)));
    hosts_ = std::move(hosts);
    check(mpi_.group_free(&before), "MPI_Group_free");
    check(mpi_.group_free(&behind), "MPI_Group_free");
  }
  // The others may still read what was sent last.
  void leave() {
    const auto start = std::chrono::steady_clock::now();
    int any = 0;
    while (!given_up_ && seconds_since(start) < leaving_seconds &&
           mpi_.iprobe(mpi_.any_source, mpi_.any_tag, comm_, &any, mpi_.status_ignore) == 0)
      std::this_thread::sleep_for(look_pause);
  }
  // "Open MPI v4.1.4", of "Open MPI v4.1.4, package: ..."; "MPICH Version: 4.0.2".
  std::string library_version() const {
    std::array<char, 16384> text{};  // MPICH writes up to 8192
    int length = 0;
    mpi_.get_library_version(text.data(), &length);
    std::string first(text.data());
    first.resize(std::min(first.size(), first.find_first_of(",\n")));
    std::replace(first.begin(), first.end(), '\t', ' ');
    return first;
  }
  void refuse_second_start() const {
    int begun = 0, over = 0;
    mpi_.initialized(&begun);
    mpi_.finalized(&over);
    if (over != 0) throw TransportUnavailable("[mpi] this process has had its world; MPI starts once in a process");
    if (begun != 0) throw TransportUnavailable("[mpi] the program has started MPI by itself; Heddle's world does that");
  }
  void check_launcher(const Launch& launch) {
    if (launch.ranks == 0 || launch.ranks == size_) return;
    given_up_ = true;
    throw TransportUnavailable(
        fmt::format("[mpi] {}, but {} sees {}: it belongs to another launcher; HEDDLE_MPI names "
                    "the library to use",
                    launch.str(), name_, size_));
  }
  void check_tags() const {
    const int* limit = nullptr;
    int known = 0;
    check(mpi_.comm_get_attr(mpi_.world, mpi_.tag_limit_key, &limit, &known), "MPI_Comm_get_attr");
    if (known != 0 && limit != nullptr && *limit < tags - 1)
      throw TransportUnavailable(fmt::format("[mpi] {} has tags up to {}; {} are needed", name_, *limit, tags - 1));
  }
  void check(int error, const char* function) const {
    if (error == 0) return;
    std::array<char, 1024> text{};
    int length = 0;
    mpi_.error_string(error, text.data(), &length);
    throw CommunicationError(fmt::format("[mpi] rank {}: {}: {}", rank_, function, text.data()));
  }
  Message new_message() {
    if (free_.empty()) {
      open_.emplace_back();
      return open_.size() - 1;
    }
    const Message message = free_.back();
    free_.pop_back();
    return message;
  }

  MpiFunctions<Handle> mpi_;
  std::string name_;
  Handle comm_{};
  int rank_ = 0, size_ = 0;
  std::vector<uint64_t> hosts_;  // hashes of their names, by rank
  bool survives_, given_up_ = false;
  std::vector<Handle> open_;  // requests, by message
  std::vector<Message> free_;
};

// Otherwise mpirun ends all ranks with the first one.
void check_recovery(const std::string& file, const std::string& lacking) {
  if (!lacking.empty())
    throw TransportUnavailable(
        fmt::format("[mpi] {} has no {}: going on without a rank needs an MPI with ULFM, e.g. Open MPI 5; HEDDLE_MPI "
                    "names another library",
                    file, lacking));
  const std::string on = os::variable("OMPI_MCA_mpi_ft_enable").value_or("");
  if (on != "1" && on != "true")
    throw TransportUnavailable("[mpi] going on without a rank needs mpirun --with-ft ulfm, or heddle launch --elastic");
}

template <class Handle>
std::unique_ptr<Transport> open_with(void* library, const std::string& file, const Launch& launch, bool survives) {
  MpiFunctions<Handle> functions{};
  const std::string lacking = find_functions(library, functions);
  if (!lacking.empty()) throw TransportUnavailable(fmt::format("[mpi] {} has no {}", file, lacking));
  if (survives) check_recovery(file, find_recovery(library, functions));
  return std::make_unique<MpiTransport<Handle>>(functions, launch, survives);
}

// Those of the launcher's family first.
std::vector<std::string> candidates(const Launch& launch) {
  constexpr int mpich = 12;
  std::vector<std::string> first, then;
  for (const os::LibraryName& name : os::names_of(os::Vendor::mpi)) {
    const bool fits = (name.version == mpich) == (launch.kind == Launch::Kind::mpich);
    (fits ? first : then).push_back(name.name);
  }
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

}  // namespace

std::unique_ptr<Transport> open_mpi_transport(const Launch& launch, bool survives) {
  const std::optional<std::string> chosen = os::variable("HEDDLE_MPI");
  std::vector<std::string> reasons;
  for (const std::string& file : chosen ? std::vector{*chosen} : candidates(launch)) {
    std::string reason;
    void* const library = os::open_library(file, &reason);
    if (library == nullptr) {
      reasons.push_back(std::move(reason));
    } else {
      return is_open_mpi(library) ? open_with<void*>(library, file, launch, survives)
                                  : open_with<int>(library, file, launch, survives);
    }
  }
  throw TransportUnavailable(fmt::format("[mpi] {}, but no MPI library can be opened ({}); Debian's package is {}",
                                         launch.str(), fmt::join(reasons, "; "),
                                         launch.kind == Launch::Kind::mpich ? "mpich" : "openmpi-bin"));
}

}  // namespace heddle::distributed
