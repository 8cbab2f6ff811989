#include "heddle/distributed/mpi_transport.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/system/library.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/distributed/errors.h"
#include "heddle/distributed/mpi_functions.h"

namespace heddle::distributed {
namespace {

constexpr int funneled = 1;  // MPI_THREAD_FUNNELED: the thread that starts it makes all calls

template <class Handle>
class MpiTransport final : public Transport {
 public:
  MpiTransport(const MpiFunctions<Handle>& functions, const Launch& launch) : mpi_(functions) {
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
  }
  ~MpiTransport() override {
    if (!given_up_) mpi_.finalize();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return name_; }

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

 private:
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
  bool given_up_ = false;
  std::vector<Handle> open_;  // requests, by message
  std::vector<Message> free_;
};

template <class Handle>
std::unique_ptr<Transport> open_with(void* library, const std::string& file, const Launch& launch) {
  MpiFunctions<Handle> functions{};
  const std::string lacking = find_functions(library, functions);
  if (!lacking.empty()) throw TransportUnavailable(fmt::format("[mpi] {} has no {}", file, lacking));
  return std::make_unique<MpiTransport<Handle>>(functions, launch);
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

std::unique_ptr<Transport> open_mpi_transport(const Launch& launch) {
  const std::optional<std::string> chosen = os::variable("HEDDLE_MPI");
  std::vector<std::string> reasons;
  for (const std::string& file : chosen ? std::vector{*chosen} : candidates(launch)) {
    std::string reason;
    void* const library = os::open_library(file, &reason);
    if (library == nullptr) {
      reasons.push_back(std::move(reason));
    } else {
      return is_open_mpi(library) ? open_with<void*>(library, file, launch) : open_with<int>(library, file, launch);
    }
  }
  throw TransportUnavailable(fmt::format("[mpi] {}, but no MPI library can be opened ({}); Debian's package is {}",
                                         launch.str(), fmt::join(reasons, "; "),
                                         launch.kind == Launch::Kind::mpich ? "mpich" : "openmpi-bin"));
}

}  // namespace heddle::distributed
