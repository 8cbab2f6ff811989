// Compression: gradients of ranks travel as fewer bytes than they have.
//
// Purpose: what is sent instead of gradients, and what those who get it take for their sum. A compression has rounds:
// in each the rank sends lists and gets those of all, by one route. What a rank could not send it keeps and adds to its
// gradients of the next update ("error feedback", Karimireddy et al. 2019, arXiv 1901.09847), so that over updates
// nothing is lost. Invariants: all ranks get the same sums, bit by bit, if their devices are the same; kept errors stay
// on their device and begin at 0, after a resume as well. Each function records, within one compiled function. Errors:
// ValueError for options that do not fit each other. Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/train/config.h"

namespace heddle::train {

// What becomes of the lists of all ranks.
enum class Route : uint8_t {
  sum,    // (n): their sum
  swap,   // (ranks, n), a part for each rank: (ranks, n), what each sent to this one
  gather  // (n): (ranks, n), by rank
};

class Compression {
 public:
  virtual ~Compression() = default;

  // Whether it takes gradients of that shape; the others travel as they are.
  virtual bool takes(const Shape& shape) const = 0;
  // By round, at least one.
  virtual std::vector<Route> routes() const = 0;
  // The lists of a round: of the first from this rank's gradients, each times its share of the batch, of a later one
  // from what the round before brought.
  virtual std::vector<Tensor> send(size_t round, const std::vector<Tensor>& given) = 0;
  // The gradients' sums over the ranks, in the same order and of the same shapes, f32, from what the last round
  // brought.
  virtual std::vector<Tensor> sums(const std::vector<Tensor>& brought) = 0;
};

// Whether gradients of a run travel compressed: several ranks, and asked for. ValueError for one rank, and beside
// shards, scaled losses (an overflow would stay among what is kept), or ranks whose devices differ.
bool compresses(const Config& config, int ranks);

std::unique_ptr<Compression> make_compression(const Config& config, int ranks, DeviceContext& device);

// The kinds. Shapes of gradients are those of the first send().
// bf16: half of the bytes; ranks are added in f32 and rounded once.
std::unique_ptr<Compression> make_rounded();
// Two thin factors of each matrix: PowerSGD, Vogels et al. 2019, arXiv 1905.13727, algorithms 1 and 2, with the factor
// of the update before as the first guess. A gradient of more than two dimensions is the matrix of its first and all
// others; matrices whose factors have more than half as many elements are not taken. Factors travel as bf16, or in 8
// bits (factor_lists.h): what that takes from a rank's own is kept too.
struct LowRankOptions {
  int64_t rank = 4;  // columns of a factor
  uint64_t seed = 0;
  bool in_bytes = false;
};
std::unique_ptr<Compression> make_low_rank(const LowRankOptions& options, DeviceContext& device);
// The elements of largest magnitude of all gradients, and their places: Lin et al. 2018, arXiv 1712.01887, without its
// momentum correction. At least one element.
std::unique_ptr<Compression> make_largest(double share, DeviceContext& device);
// 8 bits an element, of the largest magnitude among 512: each rank adds a part of the elements and sends the sums in 8
// bits again, both with what was kept (Tang et al. 2021, arXiv 2102.02888, section 4.3).
std::unique_ptr<Compression> make_bytes(int ranks, DeviceContext& device);

}  // namespace heddle::train
