#include "heddle/distributed/forecast/block_cost.h"

namespace heddle::distributed {
namespace {

class LayerCost {
 public:
  LayerCost(const StepLayers& step, const Layer& layer, const RankShare& share, const Machine& machine)
      : step_(step),
        layer_(layer),
        share_(share),
        machine_(machine),
        tp_(static_cast<double>(share.tp)),
        examples_(static_cast<double>(share.examples)),
        part_(examples_ / static_cast<double>(share.cp)) {}

  void add_to(BlockCost& cost) const {
    const double traffic = traffic_seconds(machine_, layer_.traffic * part_ / divisor());
    const double inputs = layer_.backward_flops - layer_.weight_flops;
    const double computing = products(layer_.flops) + traffic;
    cost.computing += computing;
    cost.forward += computing + sums(layer_.reduced) + exchanges(1, 0);
    cost.input_gradient += products(inputs) + 2 * traffic + sums(layer_.backward_reduced) + exchanges(1, 1);
    cost.weight_gradient += products(layer_.weight_flops);
    cost.kept += layer_.kept * part_ / divisor() + gathered() * (1 - 1 / tp_);
  }

  double forward_bytes() const { return sum_bytes(layer_.reduced) + exchange_bytes(); }
  double backward_bytes() const { return sum_bytes(layer_.backward_reduced) + 2 * exchange_bytes(); }

  double elements(bool in_pipeline) const {
    const auto whole = static_cast<double>(layer_.whole_parameters);
    const auto all = static_cast<double>(layer_.parameters + (in_pipeline ? layer_.tied_parameters : 0));
    return layer_.split == Split::none ? all : whole + (all - whole) / tp_;
  }
  double shared() const {
    return static_cast<double>(layer_.split == Split::none ? layer_.parameters : layer_.whole_parameters);
  }

 private:
  // What a layer's work and results are divided by, beside examples and positions.
  double divisor() const { return layer_.split != Split::none || step_.splits_rows_between ? tp_ : 1; }

  ProductSizes sizes() const {
    ProductSizes s = layer_.product;
    // Attention is a product for each head of each example.
    s.rows *= layer_.split == Split::heads ? part_ / examples_ : part_;
    if (layer_.split == Split::columns || layer_.split == Split::vocabulary) s.columns /= tp_;
    if (layer_.split == Split::rows) s.inner /= tp_;
    return s;
  }
  double products(double flops) const {
    return product_seconds(machine_, step_.dtype, flops * part_ / (layer_.split == Split::none ? 1 : tp_), sizes());
  }

  // Of a call, for which the step is cut.
  double cut_for(Move move, double bytes, int64_t ranks, const Level& level) const {
    return ranks > 1 && bytes > 0 ? seconds_of(move, bytes, ranks, level) + machine_.cut : 0;
  }
  double sums(double bytes) const {
    const double whole = bytes * part_;
    if (!step_.splits_rows_between) return cut_for(Move::all_reduce, whole, share_.tp, share_.tp_level);
    return cut_for(Move::reduce_scatter, whole, share_.tp, share_.tp_level) +
           cut_for(Move::all_gather, whole, share_.tp, share_.tp_level);
  }
  double sum_bytes(double bytes) const { return bytes_of(Move::all_reduce, bytes * part_, share_.tp); }

  // Inputs of columns under sequence parallelism, of which the layer in front counts this rank's part.
  double gathered() const { return step_.splits_rows_between ? layer_.backward_reduced * part_ : 0; }

  double exchanged() const { return layer_.exchanged * examples_ / tp_; }
  double exchanges(int gathers, int scatters) const {
    return gathers * cut_for(Move::all_gather, exchanged(), share_.cp, share_.cp_level) +
           scatters * cut_for(Move::reduce_scatter, exchanged(), share_.cp, share_.cp_level);
  }
  double exchange_bytes() const { return bytes_of(Move::all_gather, exchanged(), share_.cp); }

  const StepLayers& step_;
  const Layer& layer_;
  const RankShare& share_;
  const Machine& machine_;
  double tp_, examples_, part_;
};

}  // namespace

double rank_rows(const StepLayers& step, double bytes, const RankShare& share) {
  const double split = step.splits_rows_between ? static_cast<double>(share.tp) : 1;
  return bytes * static_cast<double>(share.examples) / static_cast<double>(share.cp) / split;
}

BlockCost cost_of(const StepLayers& step, const Block& block, const RankShare& share, const Machine& machine,
                  bool in_pipeline) {
  BlockCost cost;
  for (const Layer& layer : block.layers) {
    const LayerCost each(step, layer, share, machine);
    each.add_to(cost);
    cost.bytes_sent += each.forward_bytes() * (block.recomputes ? 2 : 1) + each.backward_bytes();
    cost.elements += each.elements(in_pipeline);
    if (step.splits_rows_between && share.tp > 1) cost.shared += each.shared();
  }
  if (block.recomputes) {
    cost.input_gradient += cost.forward;
    cost.working = cost.kept;
    cost.kept = rank_rows(step, block.input, share);
  }
  return cost;
}

void recompute_in_stage(BlockCost& cost, const StepLayers& step, const Block& block, const RankShare& share) {
  if (block.recomputes) return;
  cost.input_gradient += cost.computing;
  cost.working = cost.kept;
  cost.kept = rank_rows(step, block.input, share);
}

}  // namespace heddle::distributed
