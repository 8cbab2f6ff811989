#include "heddle/train/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/distributed/call.h"
#include "heddle/distributed/errors.h"
#include "heddle/distributed/mesh.h"
#include "heddle/io/sha256.h"

namespace heddle::train {
namespace {

distributed::Mesh checked_mesh(const std::string& text, int ranks) {
  if (text.empty()) return distributed::Mesh({{"dp", ranks}}, ranks);
  const distributed::Mesh mesh = distributed::Mesh::parse(text, ranks);
  constexpr std::array<std::string_view, 6> known = {"dp", "fsdp", "tp", "pp", "cp", "ep"};
  for (const distributed::MeshAxis& axis : mesh.axes()) {
    if (std::ranges::find(known, axis.name) == known.end())
      throw ValueError(
          fmt::format("[mesh] {}: the axis {} is not known to training; ranks share batches (dp), batches and states "
                      "(fsdp), heads and widths (tp), blocks (pp), positions (cp) and experts (ep)",
                      mesh.str(), axis.name));
    const bool alone = mesh.axes().size() == 1 || (mesh.axes().size() == 2 && mesh.axes().front().name == "dp");
    if (axis.name == "fsdp" && !(alone && mesh.axes().back().name == "fsdp"))
      throw ValueError(
          fmt::format("[mesh] {}: fsdp stands alone, or behind dp: neighbouring ranks share states", mesh.str()));
  }
  return mesh;
}

// Places along two axes as those along one, row-major: neighbours in one mesh are neighbours here.
nn::CutPlace together(const nn::CutPlace& outer, const nn::CutPlace& inner) {
  return {.ranks = outer.ranks * inner.ranks, .place = outer.place * inner.ranks + inner.place};
}

// Looks without a pause while it may be a matter of microseconds; then others may have the processor, and at last
// pauses are a part of what was waited.
void pause(double waited) {
  constexpr double spinning = 20e-6, yielding = 1e-3, part = 1.0 / 8, longest = 500e-6;
  if (waited < spinning) return;
  if (waited < yielding) return std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::duration<double>(std::min(waited * part, longest)));
}

}  // namespace

Replicas::Replicas(distributed::World& world, const std::string& mesh)
    : world_(world),
      mesh_(checked_mesh(mesh, world.size())),
      all_(world.all()),
      owners_(shares_states() ? world.group(mesh_, {"fsdp"}) : all_) {
  if (shares_states() && owners() < size()) copies_ = world.group(mesh_, {"dp"});
}

bool Replicas::shares_states() const { return mesh_.axes().back().name == "fsdp"; }

distributed::Group Replicas::group_of_owners(const std::string& name) {
  return shares_states() ? world_.group(name, mesh_.groups({"fsdp"})) : group(name);
}

nn::CutPlace Replicas::along_data() const { return together(along("dp"), along("fsdp")); }
nn::CutPlace Replicas::along_batch() const { return together(along_data(), along("ep")); }

nn::CutPlace Replicas::along(std::string_view axis) const {
  const std::vector<distributed::MeshAxis>& axes = mesh_.axes();
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].name == axis) return {.ranks = axes[i].size, .place = mesh_.coordinates(rank())[i]};
  }
  return {};
}

std::vector<int64_t> Replicas::shares_of(int64_t batch) const {
  const int64_t ranks = along_batch().ranks;
  if (batch < ranks)
    throw ValueError(fmt::format("[train] a batch of {} for {} ranks: each takes one example at least", batch, ranks));
  // The first `longer` parts have one more.
  const int64_t least = batch / ranks, longer = batch % ranks;
  if (!shares_.empty() && std::accumulate(shares_.begin(), shares_.end(), int64_t{0}) == batch) return shares_;
  std::vector<int64_t> shares(static_cast<size_t>(ranks), least);
  for (int64_t place = 0; place < longer; ++place) ++shares[static_cast<size_t>(place)];
  return shares;
}

void Replicas::share(std::vector<int64_t> examples) { shares_ = std::move(examples); }

data::BatchPart Replicas::part_of(int64_t batch) const {
  const std::vector<int64_t> shares = shares_of(batch);
  const auto place = shares.begin() + along_batch().place;
  return {.first = std::accumulate(shares.begin(), place, int64_t{0}), .size = *place};
}

distributed::Group Replicas::group(const std::string& name) { return world_.group(name, {all_.ranks()}); }

void Replicas::wait(const distributed::Ticket& ticket) {
  waiting_ = true;
  const auto start = std::chrono::steady_clock::now();
  try {
    ticket.wait();
  } catch (...) {
    waiting_ = false;
    throw;
  }
  waiting_ = false;
  waited_ += seconds_since(start);
}

void Replicas::wait_until(const Callable<bool()>& there, const char* name, const Callable<std::string()>& missing) {
  const auto start = std::chrono::steady_clock::now();
  waiting_ = true;
  while (!there()) {
    const double waited = seconds_since(start);
    if (waited > world_.limit_seconds()) {
      waiting_ = false;
      throw distributed::CommunicationTimeout(
          fmt::format("[{}] rank {} waited {:g} s for {}", name, rank(), world_.limit_seconds(), missing()));
    }
    pause(waited);
  }
  waiting_ = false;
  waited_ += seconds_since(start);
}

distributed::Ticket Replicas::begin_sum(std::span<float> values) {
  return all_.all_reduce(values.data(), DType::f32, Shape{static_cast<int64_t>(values.size())});
}

void Replicas::sum(std::vector<float>& values) { wait(begin_sum(values)); }

distributed::Ticket Replicas::reduce_parts(std::vector<float>& values, const std::vector<int64_t>& sizes) {
  return owners_.reduce_scatter(values.data(), DType::f32, sizes);
}

distributed::Ticket Replicas::gather_parts(std::vector<float>& values, const std::vector<int64_t>& sizes) {
  return owners_.all_gather(values.data(), DType::f32, sizes);
}

void Replicas::sum_copies(std::span<float> values) {
  if (!copies_ || values.empty()) return;
  wait(copies_->all_reduce(values.data(), DType::f32, Shape{static_cast<int64_t>(values.size())}));
}

std::vector<int64_t> Replicas::gather_of_owners(const std::vector<int64_t>& mine) {
  std::vector<int64_t> all(mine.size() * static_cast<size_t>(owners()));
  wait(owners_.all_gather(mine.data(), all.data(), DType::i64, Shape{static_cast<int64_t>(mine.size())}));
  return all;
}

std::vector<int64_t> Replicas::gather(const std::vector<int64_t>& mine) {
  std::vector<int64_t> all(mine.size() * static_cast<size_t>(size()));
  wait(all_.all_gather(mine.data(), all.data(), DType::i64, Shape{static_cast<int64_t>(mine.size())}));
  return all;
}

void Replicas::take_first(std::vector<float>& values) {
  wait(all_.broadcast(values.data(), DType::f32, Shape{static_cast<int64_t>(values.size())}, 0));
}

double Replicas::of_first(double value) {
  wait(all_.broadcast(&value, DType::f64, Shape(), 0));
  return value;
}

uint64_t Replicas::of_first(uint64_t value) {
  auto bits = static_cast<int64_t>(value);
  wait(all_.broadcast(&bits, DType::i64, Shape(), 0));
  return static_cast<uint64_t>(bits);
}

template <class Bytes>
Bytes Replicas::bytes_of_rank(int source, Bytes mine) {
  auto length = static_cast<int64_t>(mine.size());
  wait(all_.broadcast(&length, DType::i64, Shape(), source));
  mine.resize(static_cast<size_t>(length));
  wait(all_.broadcast(mine.data(), DType::u8, Shape{length}, source));
  return mine;
}

std::string Replicas::of_rank(int source, std::string mine) { return bytes_of_rank(source, std::move(mine)); }
std::vector<uint8_t> Replicas::of_rank(int source, std::vector<uint8_t> mine) {
  return bytes_of_rank(source, std::move(mine));
}

bool Replicas::any(bool mine) {
  float one = mine ? 1 : 0;
  wait(all_.all_reduce(&one, DType::f32, Shape(), distributed::Reduction::max));
  return one > 0;
}

// Ranks that do not say what the first one says.
std::vector<int> Replicas::different(const std::string& mine) {
  const auto hash = static_cast<int64_t>(hash_string(mine));
  std::vector<int64_t> hashes(static_cast<size_t>(size()));
  wait(all_.all_gather(&hash, hashes.data(), DType::i64, Shape()));
  std::vector<int> others;
  for (int other = 1; other < size(); ++other) {
    if (hashes[static_cast<size_t>(other)] != hashes[0]) others.push_back(other);
  }
  return others;
}

void Replicas::require_equal(const std::string& what, const std::string& mine) {
  const std::vector<int> others = different(mine);
  if (others.empty()) return;
  throw ValueError(fmt::format("[train] {} {} other {} than rank 0; all ranks of a run need the same",
                               distributed::list_ranks(others), others.size() == 1 ? "has" : "have", what));
}

void Replicas::compare_devices(const std::string& mine) { mixed_ = !different(mine).empty(); }

std::string parameters_sha256(const nn::Module& model) {
  Sha256 hash;
  for (const Tensor& parameter : model.parameters()) hash.update(parameter.to_bytes());
  return hex_of(hash.digest());
}

}  // namespace heddle::train
