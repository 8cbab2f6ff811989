#include "heddle/distributed/forecast/mesh_forecast.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/distributed/forecast/block_cost.h"
#include "heddle/distributed/forecast/mesh_share.h"
#include "heddle/distributed/forecast/partition.h"
#include "heddle/distributed/forecast/pipeline_run.h"

namespace heddle::distributed {
namespace {

// What a stage has of a chunk.
struct Chunk {
  size_t first = 0, last = 0;  // blocks
  ChunkCost cost = {};
  double elements = 0, largest = 0;  // of parameters: of all blocks, of one
  double shared = 0;                 // of those, whose gradients ranks of tp sum
  double working = 0;                // bytes
  double bytes_sent = 0;             // of a microbatch
  Overlap overlap = {};              // of its shards' calls with its passes, for a microbatch
};

class Forecaster {
 public:
  Forecaster(const StepLayers& step, const Cluster& cluster, const ForecastOptions& options)
      : step_(step),
        cluster_(cluster),
        options_(options),
        share_(share_of(step, cluster.links, options)),
        sizes_{.stages = share_.pp, .microbatches = share_.microbatches, .chunks = options.chunks} {}

  MeshForecast run() {
    make_chunks();
    std::vector<std::vector<ChunkCost>> costs(chunks_.size());
    for (size_t stage = 0; stage < chunks_.size(); ++stage)
      for (const Chunk& chunk : chunks_[stage]) costs[stage].push_back(chunk.cost);
    run_ = run_pipeline(pipeline_order(options_.schedule, sizes_), sizes_, costs);
    return finish();
  }

 private:
  bool shards(Sharding least) const { return options_.sharding >= least; }
  double owned(double value, Sharding from) const {
    return shards(from) ? value / static_cast<double>(share_.sharers.ranks) : value;
  }

  void make_chunks() {
    std::vector<double> seconds;
    const bool again = step_.stages_recompute && share_.pp > 1 && options_.schedule != PipelineSchedule::zero_bubble;
    for (const Block& block : step_.blocks) {
      blocks_.push_back(cost_of(step_, block, share_.rank, cluster_.machine, share_.pp > 1));
      if (again) recompute_in_stage(blocks_.back(), step_, block, share_.rank);
      seconds.push_back(blocks_.back().forward + blocks_.back().input_gradient + blocks_.back().weight_gradient);
    }
    const auto places = static_cast<size_t>(sizes_.stages * sizes_.chunks), stages = static_cast<size_t>(sizes_.stages);
    const std::vector<size_t> begins = partition_blocks(seconds, places);
    chunks_.resize(stages);
    for (size_t place = 0; place < places; ++place)
      chunks_[place % stages].push_back(chunk_of(begins[place], begins[place + 1], place + 1 == places));
  }

  Chunk chunk_of(size_t first, size_t last, bool ends) const {
    Chunk chunk{.first = first, .last = last};
    for (size_t i = first; i < last; ++i) {
      const BlockCost& block = blocks_[i];
      chunk.cost.forward += block.forward;
      chunk.cost.input_gradient += block.input_gradient;
      chunk.cost.weight_gradient += block.weight_gradient;
      chunk.cost.kept += block.kept;
      chunk.bytes_sent += block.bytes_sent;
      chunk.elements += block.elements;
      chunk.shared += block.shared;
      chunk.largest = std::max(chunk.largest, block.elements);
      chunk.working = std::max(chunk.working, block.working);
    }
    if (share_.pp > 1) add_messages(chunk, first == 0, ends);
    if (in_parts()) add_recording(chunk);
    if (shards(Sharding::zero3) && share_.sharers.ranks > 1) add_gathers(chunk);
    return chunk;
  }

  // Ranks of a split group send a part each and gather within the group (Narayanan et al. 2021, section 4.1), unless
  // positions are split between them anyway.
  double message_seconds(double rows) const {
    const double tp = static_cast<double>(share_.tp);
    const double gathered = step_.splits_rows_between ? 0 : rows;
    return seconds_of(Move::send, step_.splits_rows_between ? rows : rows / tp, 2, share_.pp_level) +
           seconds_of(Move::all_gather, gathered, share_.tp, share_.rank.tp_level);
  }
  double message_bytes(double rows) const {
    if (step_.splits_rows_between) return rows;
    return rows / static_cast<double>(share_.tp) + bytes_of(Move::all_gather, rows, share_.tp);
  }
  void add_messages(Chunk& chunk, bool begins, bool ends) const {
    const double in = begins ? 0 : rank_rows(step_, step_.blocks[chunk.first].input, share_.rank);
    const double out = ends ? 0 : rank_rows(step_, step_.blocks[chunk.last - 1].output, share_.rank);
    chunk.cost.message = message_seconds(out);
    chunk.cost.gradient_message = message_seconds(in);
    chunk.bytes_sent += message_bytes(in) + message_bytes(out);
    // A stage reads what goes, and hands what comes to its device, between two passes.
    chunk.cost.forward += cluster_.machine.cut;
    chunk.cost.input_gradient += cluster_.machine.cut;
  }

  // Ranks with parts of the model record each pass anew: a forward pass half as many operations as a backward pass.
  void add_recording(Chunk& chunk) const {
    const auto layers = [&](size_t first, size_t last) {
      double count = 0;
      for (size_t i = first; i < last; ++i) count += static_cast<double>(step_.blocks[i].layers.size());
      return count;
    };
    const double all = layers(0, step_.blocks.size());
    const double third = all > 0 ? cluster_.machine.record * layers(chunk.first, chunk.last) / all / 3 : 0;
    for (double* pass : {&chunk.cost.forward, &chunk.cost.input_gradient, &chunk.cost.weight_gradient}) *pass += third;
  }

  // As many as a chunk's parameters come in, and their gradients go in.
  double buckets_in(const Chunk& chunk) const {
    if (!step_.as_trained) return 1;
    std::vector<Bucket> buckets;
    for (size_t i = chunk.first; i < chunk.last; ++i) add_layers(buckets, i, 0, 0);
    return std::max(static_cast<double>(in_shard_buckets(buckets).size()), 1.0);
  }

  // Parameters come a block ahead, so a pass takes the longer of the two; gradients are read where the step is cut.
  void add_gathers(Chunk& chunk) const {
    const double buckets = buckets_in(chunk), latencies = (buckets - 1) * 2 * share_.sharers.level.latency;
    const double bytes = chunk.elements * step_.parameter_bytes, gradients = chunk.elements * step_.gradient_bytes;
    const double gather = gather_seconds(bytes, share_.sharers) + latencies;
    const double sum = sum_seconds(gradients, options_.sharding, share_.sharers) + latencies;
    ChunkCost& cost = chunk.cost;
    cost.input_gradient += buckets * cluster_.machine.cut;
    const double backward = cost.input_gradient + cost.weight_gradient;
    const double forward = cost.forward;
    cost.forward = beside(forward, gather, bytes);
    cost.input_gradient += beside(backward, gather + sum, bytes + gradients) - backward;
    const double passes = cost.forward + cost.input_gradient + cost.weight_gradient;
    const double calls = 2 * gather + sum;
    chunk.overlap = {.calls = calls, .hidden = std::max(calls + forward + backward - passes, 0.0)};
  }
  // Calls of so many bytes of all sharers beside computing.
  double beside(double computing, double calls, double bytes) const {
    if (!options_.overlap) return computing + calls;
    const Level& level = share_.sharers.level;
    const double sending = bytes_of(Move::all_gather, bytes, share_.sharers.ranks) / level.bandwidth;
    return seconds_beside(computing, calls, sending, level);
  }

  MeshForecast finish() const {
    MeshForecast made{.mesh = share_.mesh.str(), .ranks = share_.mesh.ranks()};
    made.microbatches = share_.microbatches;
    made.microbatch = share_.rank.examples;
    made.bubble = run_.bubble;
    for (size_t stage = 0; stage < chunks_.size(); ++stage) {
      const SumsRun sums = sums_of(stage);
      made.stages.push_back(rank_of(stage, sums.overlap));
      made.step_seconds = std::max(made.step_seconds, end_of(stage, sums.end));
    }
    const auto batch = static_cast<double>(options_.batch), ranks = static_cast<double>(made.ranks);
    made.hardware_flops = hardware_flops_of(step_) * batch / ranks / made.step_seconds;
    made.mfu = model_flops_of(step_) * batch / ranks / made.step_seconds / cluster_.machine.flops(step_.dtype);
    return made;
  }

  double elements_of(size_t stage) const {
    double elements = 0;
    for (const Chunk& chunk : chunks_[stage]) elements += chunk.elements;
    return elements;
  }

  // Of gradients that ranks of tp sum once a step.
  double shared_bytes(size_t stage) const {
    double elements = 0;
    for (const Chunk& chunk : chunks_[stage]) elements += chunk.shared;
    return elements * step_.gradient_bytes;
  }

  double end_of(size_t stage, double end) const {
    const double elements = elements_of(stage);
    end += seconds_of(Move::all_reduce, shared_bytes(stage), share_.tp, share_.rank.tp_level);
    const double moved =
        owned(elements, Sharding::zero1) * (2 * step_.state_bytes + step_.gradient_bytes + 2 * step_.parameter_bytes);
    end += traffic_seconds(cluster_.machine, moved);
    if (shards(Sharding::zero1) && !shards(Sharding::zero3))
      end += gather_seconds(elements * step_.parameter_bytes, share_.sharers);
    return end;
  }

  bool in_parts() const { return share_.pp > 1 || share_.tp > 1 || share_.cp > 1; }
  bool sums_behind() const {
    const bool as_one = in_parts() || options_.sharding == Sharding::zero1;
    return !options_.overlap || (step_.as_trained && as_one);
  }

  SumsRun sums_of(size_t stage) const {
    double computed = run_.stages[stage].end;
    if (shards(Sharding::zero3)) return gathers_of(stage, computed);
    std::vector<Bucket> buckets = buckets_of(stage);
    // Without shards lists of ranks that share batches are read while the device goes on.
    const bool cuts = share_.sharers.ranks > 1 && shards(Sharding::zero1);
    if (cuts || in_parts()) cut_behind_each(buckets, computed, cluster_.machine.cut);
    return run_sums(std::move(buckets), options_.sharding, share_.sharers, computed);
  }
  // Calls of zero3 are parts of passes.
  SumsRun gathers_of(size_t stage, double computed) const {
    const auto microbatches = static_cast<double>(share_.microbatches);
    SumsRun run{.end = computed};
    for (const Chunk& chunk : chunks_[stage])
      run.overlap += {.calls = microbatches * chunk.overlap.calls, .hidden = microbatches * chunk.overlap.hidden};
    return run;
  }

  // One a layer, from the last, as the last microbatch's backward pass comes to them.
  std::vector<Bucket> buckets_of(size_t stage) const {
    const StageRun& run = run_.stages[stage];
    if (sums_behind()) return {{run.end, elements_of(stage) * step_.gradient_bytes}};
    std::vector<Bucket> buckets;
    for (size_t c = chunks_[stage].size(); c-- > 0;) {
      const Chunk& chunk = chunks_[stage][c];
      double left = chunk.cost.input_gradient + chunk.cost.weight_gradient;
      for (size_t i = chunk.last; i-- > chunk.first;) {
        const double own = blocks_[i].input_gradient + blocks_[i].weight_gradient;
        left = std::max(left - own, 0.0);
        add_buckets(buckets, i, run.gradients_end[c] - left, own);
      }
    }
    if (!shards(Sharding::zero1)) return in_lists(buckets);
    return step_.as_trained ? in_shard_buckets(buckets) : buckets;
  }
  // Of a block, whose backward pass ends then and takes so long.
  void add_buckets(std::vector<Bucket>& buckets, size_t block, double end, double seconds) const {
    if (!shards(Sharding::zero1) || step_.as_trained) return add_layers(buckets, block, end, seconds);
    buckets.push_back({end, blocks_[block].elements * step_.gradient_bytes});
  }
  void add_layers(std::vector<Bucket>& buckets, size_t block, double end, double seconds) const {
    const std::vector<Layer>& layers = step_.blocks[block].layers;
    double all = 0;
    for (const Layer& layer : layers) all += static_cast<double>(layer.parameters);
    if (all == 0) return buckets.push_back({end, blocks_[block].elements * step_.gradient_bytes});
    for (size_t l = layers.size(); l-- > 0;)
      buckets.push_back(
          {end - seconds * static_cast<double>(l) / static_cast<double>(layers.size()),
           blocks_[block].elements * static_cast<double>(layers[l].parameters) / all * step_.gradient_bytes});
  }

  RankForecast rank_of(size_t stage, const Overlap& overlap) const {
    const StageRun& run = run_.stages[stage];
    RankForecast rank{.stage = static_cast<int64_t>(stage), .ranks = share_.mesh.ranks() / share_.pp};
    rank.live = run.live;
    rank.bubble = run_.seconds > 0 ? 1 - run.busy / run_.seconds : 0;
    rank.communication_hidden = overlap.share();
    rank.memory = memory_of(stage);
    const auto microbatches = static_cast<double>(share_.microbatches);
    for (const Chunk& chunk : chunks_[stage]) rank.bytes_per_step += chunk.bytes_sent * microbatches;
    const SyncWork work{.elements = elements_of(stage),
                        .shared_values = step_.shared_values,
                        .parameter_bytes = step_.parameter_bytes,
                        .gradient_bytes = step_.gradient_bytes,
                        .microbatches = share_.microbatches,
                        .lists = static_cast<int64_t>(buckets_of(stage).size())};
    rank.bytes_per_step += sync_bytes(work, options_.sharding, share_.sharers);
    rank.bytes_per_step += bytes_of(Move::all_reduce, shared_bytes(stage), share_.tp);
    return rank;
  }

  MemoryForecast memory_of(size_t stage) const {
    const double elements = elements_of(stage);
    double largest = 0, working = 0;
    for (const Chunk& chunk : chunks_[stage]) {
      largest = std::max(largest, chunk.largest);
      working = std::max(working, chunk.working);
    }
    MemoryForecast m;
    m.parameters = owned(elements, Sharding::zero3) * step_.parameter_bytes;
    if (shards(Sharding::zero3)) m.parameters += 2 * largest * step_.parameter_bytes;  // in use, and on its way
    m.gradients = owned(elements, Sharding::zero2) * step_.gradient_bytes;
    m.optimizer = owned(elements, Sharding::zero1) * step_.state_bytes;
    m.activations = run_.stages[stage].kept + working;
    m.peak = m.parameters + m.gradients + m.optimizer + m.activations;
    return m;
  }

  const StepLayers& step_;
  const Cluster& cluster_;
  const ForecastOptions& options_;
  MeshShare share_;
  PipelineSizes sizes_;
  std::vector<BlockCost> blocks_;
  std::vector<std::vector<Chunk>> chunks_;  // by stage
  PipelineRun run_;
};

}  // namespace

double MeshForecast::peak() const {
  double peak = 0;
  for (const RankForecast& stage : stages) peak = std::max(peak, stage.memory.peak);
  return peak;
}

MeshForecast forecast(const StepLayers& step, const Cluster& cluster, const ForecastOptions& options) {
  return Forecaster(step, cluster, options).run();
}

}  // namespace heddle::distributed
