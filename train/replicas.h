// Replicas: ranks that train one model together, each on its part of every batch (data parallelism), and where a mesh
// says so each with its part of the model (train/model_parallel/).
//
// Purpose: what the trainer asks of the other ranks: sums, and decisions that all must take alike. Invariants: all
// ranks make the same calls in the same order, and get the same bits. Errors: ValueError for a mesh that is not made of
// the ranks that there are, or that has another axis than dp, fsdp, tp, pp, cp and ep; those of distributed/errors.h.
// Thread safety: none, but waiting().
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/data/loader.h"
#include "heddle/distributed/mesh.h"
#include "heddle/distributed/world.h"
#include "heddle/nn/module.h"
#include "heddle/nn/parameter_cut.h"

namespace heddle::train {

class Replicas {
 public:
  // The world outlives it. `mesh`: "dp=4", "dp=2,tp=2"; empty: all ranks along dp.
  explicit Replicas(distributed::World& world, const std::string& mesh = "");
  Replicas(const Replicas&) = delete;
  Replicas& operator=(const Replicas&) = delete;

  int rank() const { return all_.rank(); }
  int size() const { return all_.size(); }
  bool alone() const { return size() == 1; }  // every question below is answered here, and at once
  bool leads() const { return rank() == 0; }  // writes files and prints
  std::string mesh() const { return mesh_.str(); }

  // Ranks along an axis, and this one's place among them; of an axis that the mesh does not have one.
  nn::CutPlace along(std::string_view axis) const;
  // Ranks that share batches, along dp and fsdp together, and this one's place among them.
  nn::CutPlace along_data() const;
  // Ranks that have other examples: these, and those along ep, which have some experts of a mixture each and send each
  // other rows.
  nn::CutPlace along_batch() const;
  // Whether ranks have parts of the model: the mesh has several ranks along another axis than these.
  bool share_model() const { return along_data().ranks < size(); }
  const distributed::Mesh& grid() const { return mesh_; }
  distributed::World& world() const { return world_; }

  // How many examples of a batch ranks along dp, fsdp and ep take: they differ by one at most, unless share() said
  // otherwise. ValueError where there are fewer examples than such ranks.
  std::vector<int64_t> shares_of(int64_t batch) const;
  // Of batches of as many examples as these together, each of these ranks takes so many. All ranks say the same.
  void share(std::vector<int64_t> examples);
  // What this rank takes of a batch: parts follow each other in the order of ranks.
  data::BatchPart part_of(int64_t batch) const;
  // Its share of the batch's examples.
  double share_of(int64_t batch) const { return static_cast<double>(part_of(batch).size) / static_cast<double>(batch); }

  // All ranks once more, for calls of another thread. Every rank asks for it at the same place.
  distributed::Group group(const std::string& name);

  // Each value becomes its sum over the ranks.
  void sum(std::vector<float>& values);
  // The same under way, for wait(): the values stay where they are until then. Sums of several lists go side by side.
  distributed::Ticket begin_sum(std::span<float> values);
  void wait(const distributed::Ticket& ticket);
  // Until `there` says so of what another rank does where this one sees it without messages (train/neighbour_lists.h).
  // CommunicationTimeout past the world's limit: "[NAME] rank 0 waited 60 s for MISSING".
  void wait_until(const Callable<bool()>& there, const char* name, const Callable<std::string()>& missing);
  // Ranks along fsdp own all elements of the model together, and those along dp own the same ones; without fsdp all
  // ranks do.
  bool shares_states() const;                   // whether there is such an axis
  int owner() const { return owners_.rank(); }  // this rank's place
  int owners() const { return owners_.size(); }
  bool first_owners() const { return rank() < owners(); }  // whose states are saved
  // Of parts that were reduced by their owners: the sums over the groups.
  void sum_copies(std::span<float> values);
  // Those that own all elements together with this one, for calls of another thread.
  distributed::Group group_of_owners(const std::string& name);
  // gather() of these alone.
  std::vector<int64_t> gather_of_owners(const std::vector<int64_t>& mine);
  // Parts of owners lie behind each other, as many values as `sizes` says: each rank gets the sums of its own part, in
  // its place, and all parts from who has them. The values stay where they are until wait().
  distributed::Ticket reduce_parts(std::vector<float>& values, const std::vector<int64_t>& sizes);
  distributed::Ticket gather_parts(std::vector<float>& values, const std::vector<int64_t>& sizes);
  // For values of other types than f32.
  distributed::Group& all() { return all_; }
  // As many numbers of each rank, in the order of ranks.
  std::vector<int64_t> gather(const std::vector<int64_t>& mine);
  // Each value becomes the first rank's.
  void take_first(std::vector<float>& values);
  double of_first(double value);
  uint64_t of_first(uint64_t value);
  std::string of_first(std::string text) { return of_rank(0, std::move(text)); }
  // What that rank has, of any length.
  std::string of_rank(int source, std::string mine);
  std::vector<uint8_t> of_rank(int source, std::vector<uint8_t> mine);
  // Until the first rank has gone or, past the world's limit, fails: for a rank that came to the same end, of which the
  // first one speaks.
  void wait_for_first() { (void)of_first(0.0); }
  // Whether one of them says so.
  bool any(bool mine);
  // Refuses, on all ranks, to go on where `mine` is not the same everywhere: "[train] rank 2 has other WHAT than rank
  // 0".
  void require_equal(const std::string& what, const std::string& mine);

  // Whether the devices, as each rank names its own, differ: then ranks round differently, and parameters are the first
  // rank's (SharedGradients). False before it is asked.
  void compare_devices(const std::string& mine);
  bool mixed() const { return mixed_; }

  // By this rank since its world began, with what others took out of memory that they share with it.
  uint64_t bytes_sent() const { return world_.bytes_sent() + bytes_shared_; }
  void note_shared(uint64_t bytes) { bytes_shared_ += bytes; }
  // For the others, since the world began, by the thread that trains.
  double waited_seconds() const { return waited_; }
  // For the others: no fault of this rank's device.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }

 private:
  template <class Bytes>
  Bytes bytes_of_rank(int source, Bytes mine);
  std::vector<int> different(const std::string& mine);

  distributed::World& world_;
  distributed::Mesh mesh_;
  distributed::Group all_, owners_;
  std::optional<distributed::Group> copies_;  // of this rank's elements; none: nobody else has them
  bool mixed_ = false;
  std::vector<int64_t> shares_;  // by rank; empty: equal ones
  double waited_ = 0;
  uint64_t bytes_shared_ = 0;
  std::atomic<bool> waiting_{false};
};

// SHA-256 of a model's parameters in their order, as stored. Waits for the device.
std::string parameters_sha256(const nn::Module& model);

}  // namespace heddle::train
