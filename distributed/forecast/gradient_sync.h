// What ranks that share batches send each other for a step, and how long.
//
// Purpose: data parallelism and ZeRO's stages (Rajbhandari et al. 2020, arXiv 1910.02054, section 7): none sums
// gradients in an all-reduce; zero1 and zero2 scatter the sums and gather the parameters; zero3 gathers parameters for
// each pass of a microbatch and scatters the sums of its gradients. Buckets, one a block, start as the backward pass
// ends with them where they may run beside it. Invariants: bytes are those of the group's first rank, exact for one
// call each. Thread safety: pure.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "heddle/distributed/forecast/links.h"
#include "heddle/distributed/overlap.h"

namespace heddle::distributed {

enum class Sharding : uint8_t { none, zero1, zero2, zero3 };
// ValueError for what is none of "none", "zero1", "zero2", "zero3".
Sharding parse_sharding(std::string_view name);
std::string_view name_of(Sharding sharding);

// Ranks that see other data and have the same parameters.
struct Sharers {
  int64_t ranks = 1;
  Level level = {};
};

struct SyncWork {
  double elements = 0;  // of parameters
  int64_t shared_values = 0;
  double parameter_bytes = 4, gradient_bytes = 4;  // of each
  int64_t microbatches = 1;
  int64_t lists = 1;  // that sums of gradients go in, where nothing is sharded
};
double sync_bytes(const SyncWork& work, Sharding sharding, const Sharers& sharers);

// Seconds of gathering so many parameters; of the sums of so many gradients.
double gather_seconds(double bytes, const Sharers& sharers);
double sum_seconds(double bytes, Sharding sharding, const Sharers& sharers);

// A part of the gradients, and when the backward pass has it.
struct Bucket {
  double ready = 0, bytes = 0;
};
// As training sends them without shards, and with zero2 and zero3 (distributed/gradient_lists.h).
std::vector<Bucket> in_lists(const std::vector<Bucket>& buckets);
std::vector<Bucket> in_shard_buckets(const std::vector<Bucket>& buckets);
// How sums of gradients went: when all are there and computing is over, and what of their time was hidden.
struct SumsRun {
  double end = 0;  // seconds
  Overlap overlap = {};
};
// Of these buckets, beside computing that alone would be over at `computed`, no earlier than any bucket is ready. They
// are sent one after the other in the order in which they are ready, while others' latency passes; where that takes the
// rank's processor, computing waits, and so do later buckets.
SumsRun run_sums(std::vector<Bucket> buckets, Sharding sharding, const Sharers& sharers, double computed);
// Where computing stands for `cut` seconds behind each bucket.
void cut_behind_each(std::vector<Bucket>& buckets, double& computed, double cut);

}  // namespace heddle::distributed
