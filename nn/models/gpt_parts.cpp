#include "heddle/nn/models/gpt_parts.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/distributed/collectives.h"
#include "heddle/nn/context_parallel.h"
#include "heddle/nn/models/gpt_mixture.h"
#include "heddle/nn/models/parts.h"
#include "heddle/nn/rank_part.h"
#include "heddle/nn/tensor_parallel.h"

namespace heddle::nn {
namespace {

constexpr const char* tensor_axis = "tp";
constexpr const char* position_axis = "cp";
constexpr const char* expert_axis = "ep";

const GptOptions& checked(const GptOptions& o, const GptPlace& place) {
  if (o.heads % place.tensor.ranks != 0)
    throw ValueError(fmt::format("[GptParts] {} ranks along tp do not divide {} heads", place.tensor.ranks, o.heads));
  if (o.experts > 0 && place.batch_axes.empty())
    throw ValueError(fmt::format("[GptParts] {} experts lie on ranks along ep, and there are none", o.experts));
  if (place.experts.ranks > 1 && o.experts % place.experts.ranks != 0)
    throw ValueError(
        fmt::format("[GptParts] {} ranks along ep do not divide {} experts", place.experts.ranks, o.experts));
  if (place.experts.ranks > 1 && (place.tensor.ranks > 1 || place.positions.ranks > 1))
    throw ValueError("[GptParts] experts in parts stand beside heads or positions in parts");
  if (place.positions.ranks > 1 && o.dropout > 0)
    throw ValueError(fmt::format("[GptParts] dropout is {} and cp={}: attention over positions in parts has none",
                                 o.dropout, place.positions.ranks));
  return o;
}

// Whatever replaced a part's value since (load_state_dict, to) is a part as well.
const Tensor& typed_part(const Tensor& part, bool in_parts) {
  if (in_parts && !distributed::varies(part, tensor_axis)) distributed::set_varying(part, tensor_axis);
  return part;
}

LayerNorm norm_over(const Callable<Tensor(const std::string&)>& part, const std::string& name) {
  const Tensor weight = part(name + ".weight");
  LayerNorm norm(weight.shape(), {.device = weight.device()});
  norm.to(weight.dtype());
  norm.load_state_dict({{"weight", weight}, {"bias", part(name + ".bias")}});
  eval({norm.weight, norm.bias});  // values, which can be given a type
  return norm;
}

// Rows (N, ...) as those that the rank has along "tp".
Tensor own_rows(const Tensor& rows, const CutPlace& at) {
  if (rows.dim(0) % at.ranks != 0)
    throw ShapeError(
        fmt::format("[GptParts] {} ranks along tp do not divide the {} positions of a batch", at.ranks, rows.dim(0)));
  const int64_t size = rows.dim(0) / at.ranks;
  return slice(rows, 0, {.start = at.place * size, .stop = (at.place + 1) * size});
}

// (B, T, ...) as (B T, ...).
Tensor as_rows(const Tensor& x) { return reshape(x, x.shape().without(0).with(0, x.dim(0) * x.dim(1))); }

// dropout() of what lies between layers, or, `own`, of the rank's rows of it, (N / ranks, C): all draw the mask of all
// rows.
Tensor dropped(const Tensor& x, double p, bool training, const CutPlace& at, bool own) {
  if (!own || p == 0 || !training) return heddle::dropout(x, p, training);
  const Tensor mask = heddle::dropout(ones(x.shape().with(0, x.dim(0) * at.ranks), x.dtype(), &x.device()), p, true);
  return x * own_rows(mask, at);
}

// Each rank has the gradients of its own positions, `own`, so what all share varies as well.
Tensor normed(LayerNorm& norm, const Tensor& x, bool own) {
  (void)typed_part(norm.weight, own);
  (void)typed_part(norm.bias, own);
  return norm(x);
}

// The rows of all ranks, in the dtype in which products take them: as many bytes as sums behind products are.
Tensor all_rows(const Tensor& x) {
  return distributed::all_gather(x.to(autocast_dtype(Autocast::low, x.dtype())), tensor_axis, 0);
}

// A module that only names the parts.
template <class... Children>
Parts group(const char* kind, const Children&... children) {
  Parts parts(kind);
  (parts.add(children.first, children.second), ...);
  return parts;
}

}  // namespace

ParameterCut gpt_cut(const std::string& name, bool vocabulary_in_parts) {
  if (name == "wte.weight") return vocabulary_in_parts ? ParameterCut{.axis = 0} : ParameterCut{};
  if (name.ends_with("attn.c_attn.weight") || name.ends_with("attn.c_attn.bias")) return {.axis = 0, .blocks = 3};
  if (name.ends_with("mlp.c_fc.weight") || name.ends_with("mlp.c_fc.bias")) return {.axis = 0};
  if (name.ends_with(".c_proj.weight")) return {.axis = 1};
  return {};
}

GptBlockParts::GptBlockParts(const GptOptions& o, const GptPlace& place,
                             const Callable<Tensor(const std::string&)>& part)
    : Module("GptBlockParts"),
      tensor_(place.tensor),
      positions_(place.positions),
      sequence_parallel_(place.sequence_parallel),
      heads_(o.heads / place.tensor.ranks),
      dropout_(o.dropout),
      tanh_gelu_(o.tanh_gelu),
      ln_1_(norm_over(part, "ln_1")),
      ln_2_(norm_over(part, "ln_2")) {
  const auto layer = [&](const std::string& name) { return Linear(part(name + ".weight"), part(name + ".bias")); };
  c_attn_ = layer("attn.c_attn");
  attn_proj_ = layer("attn.c_proj");
  add("ln_1", ln_1_);
  add("attn", group("Attention", std::pair("c_attn", *c_attn_), std::pair("c_proj", *attn_proj_)));
  add("ln_2", ln_2_);
  if (o.experts > 0) {
    mixture_ = std::make_shared<ExpertParallelMixture>(mixture_options(o), Linear(part("mlp.router.weight")),
                                                       part("mlp.up"), part("mlp.down"), expert_axis);
    add("mlp", *mixture_);
    return;
  }
  c_fc_ = layer("mlp.c_fc");
  mlp_proj_ = layer("mlp.c_proj");
  add("mlp", group("Mlp", std::pair("c_fc", *c_fc_), std::pair("c_proj", *mlp_proj_)));
}

const Tensor& GptBlockParts::typed(const Tensor& part) const { return typed_part(part, tensor_.ranks > 1); }

Tensor GptBlockParts::whole(const Tensor& x) const {
  return sequence_parallel_ ? reshape(all_rows(x), {-1, length_, x.dim(-1)}) : x;
}

// The product is the sum over the ranks' columns; the bias stands behind it.
Tensor GptBlockParts::row_product(const Tensor& x, const Linear& layer) const {
  if (tensor_.ranks == 1) return linear(x, layer.weight, layer.bias);
  const Tensor part = linear(x, typed(layer.weight), {});
  if (!sequence_parallel_) return distributed::psum(part, tensor_axis) + layer.bias;
  return distributed::reduce_scatter(as_rows(part), tensor_axis, 0) + typed_part(layer.bias, true);
}

// The mask of a kernel counts from the rank's own first head: each rank has chance of its own, and the process's goes
// on as that of one process does.
Tensor GptBlockParts::attend(const Tensor& queries, const Tensor& keys, const Tensor& values) {
  if (positions_.ranks > 1) return join_heads(ring_attention(queries, keys, values, position_axis, {.causal = true}));
  AttentionOptions how;
  how.causal = true;
  how.dropout = training() ? dropout_ : 0;
  if (how.dropout > 0 && tensor_.ranks > 1) {
    Generator& shared = default_generator();
    own_.seed = hash_combine(shared.seed, static_cast<uint64_t>(tensor_.place + 1));
    own_.offset = shared.offset++;
    how.generator = &own_;
  }
  return join_heads(scaled_dot_product_attention(queries, keys, values, how));
}

Tensor GptBlockParts::attended(const Tensor& x) {
  const Tensor joined =
      linear(whole(normed(ln_1_, x, sequence_parallel_)), typed(c_attn_->weight), typed(c_attn_->bias));
  const auto [queries, keys, values] = split_heads(joined, heads_);
  return row_product(attend(queries, keys, values), *attn_proj_);
}

Tensor GptBlockParts::grown(const Tensor& x) {
  if (mixture_) return (*mixture_)(ln_2_(x));
  const Tensor inner = linear(whole(normed(ln_2_, x, sequence_parallel_)), typed(c_fc_->weight), typed(c_fc_->bias));
  return row_product(tanh_gelu_ ? gelu_tanh(inner) : gelu(inner), *mlp_proj_);
}

Tensor GptBlockParts::forward(const Tensor& x) {
  const auto drop = [this](const Tensor& y) { return dropped(y, dropout_, training(), tensor_, sequence_parallel_); };
  const Tensor middle = x + drop(attended(x));
  return middle + drop(grown(middle));
}

GptParts::GptParts(const Gpt& whole, GptPlace place)
    : Module("GptParts"),
      options_(checked(whole.options(), place)),
      place_(std::move(place)),
      ln_f_(options_.width, {.device = whole.parameters().front().device()}) {
  place_.sequence_parallel = place_.sequence_parallel && place_.tensor.ranks > 1;
  std::map<std::string, Tensor> values;
  for (const auto& [name, value] : whole.named_parameters()) values.emplace(name, value);
  const auto part = [&](const std::string& name) {
    const Tensor& value = values.at(name);
    return part_of(value, cut_of(name), cut_place(), value.device());
  };
  const auto table = [&](const char* name, Tensor& weight) {
    Parts parts("Embedding");
    weight = parts.add_parameter("weight", part(fmt::format("{}.weight", name)));
    add(name, parts);
  };
  if (place_.embeds || place_.projects) table("wte", wte_);
  if (place_.embeds) table("wpe", wpe_);
  Parts h("Blocks");
  for (const auto& [first, last] : place_.blocks) {
    for (int64_t i = first; i < last; ++i) {
      const auto of_block = [&](const std::string& name) { return part(fmt::format("h.{}.{}", i, name)); };
      h.add(std::to_string(i), blocks_.emplace(i, GptBlockParts(options_, place_, of_block)).first->second);
    }
  }
  add("h", h);
  if (!place_.projects) return;
  ln_f_ = norm_over(part, "ln_f");
  add("ln_f", ln_f_);
}

bool GptParts::is_of_experts(const std::string& name) { return name.ends_with("mlp.up") || name.ends_with("mlp.down"); }

ParameterCut GptParts::cut_of(const std::string& name) const {
  if (place_.batch_axes.empty()) return gpt_cut(name, place_.vocabulary_in_parts);
  return is_of_experts(name) ? ParameterCut{.axis = 0} : ParameterCut{};
}

// Names of experts' parameters are h.N.mlp.up and h.N.mlp.down.
Tensor GptParts::gradient_of(const std::string& name, const Tensor& parameter) const {
  if (!place_.apart || !is_of_experts(name)) return parameter.grad();
  const ExpertParallelMixture::Apart& apart = blocks_.at(std::stoll(name.substr(2))).mixture()->apart();
  return (name.ends_with(".up") ? apart.up : apart.down).grad();
}

// What varies on all ranks has a gradient of the rank's own tokens: one sum of all behind the pass, instead of one
// each.
void GptParts::begin_pass() {
  if (place_.batch_axes.empty()) return;
  const bool apart = place_.apart && training();
  const std::vector<Tensor> all = parameters();
  heddle::eval(all);  // values, which can be given a type: what was read from a file is pending
  for (const Tensor& parameter : all) {
    for (const std::string& axis : place_.batch_axes) (void)typed_part(parameter, axis);
  }
  for (auto& [number, block] : blocks_) {
    ExpertParallelMixture* const mixture = block.mixture();
    if (mixture == nullptr) continue;
    if (apart)
      mixture->begin_apart();
    else
      mixture->end_apart();
  }
}

const Tensor& GptParts::typed_table() {
  return typed_part(wte_, place_.vocabulary_in_parts || place_.sequence_parallel);
}

std::vector<std::string> GptPlace::axes_between_layers() const {
  std::vector<std::string> axes;
  if (positions.ranks > 1) axes.emplace_back(position_axis);
  if (sequence_parallel) axes.emplace_back(tensor_axis);
  return axes;
}

Shape GptParts::between_layers(const Shape& tokens) const {
  const int64_t length = tokens[1] / place_.positions.ranks;
  if (!place_.sequence_parallel) return {tokens[0], length, options_.width};
  return {tokens[0] * length / place_.tensor.ranks, options_.width};
}

// Tokens (B, T) as the rank's positions, which vary; so do the sequences of ranks with other ones.
Tensor GptParts::own_positions(const Tensor& tokens) const {
  if (!place_.batch_axes.empty()) return distributed::pvary(tokens, place_.batch_axes);
  const auto [ranks, place] = place_.positions;
  if (ranks == 1) return tokens;
  if (tokens.dim(1) % ranks != 0)
    throw ShapeError(fmt::format("[GptParts] {} ranks along cp do not divide {} positions", ranks, tokens.dim(1)));
  const int64_t size = tokens.dim(1) / ranks;
  return slice(distributed::pvary(tokens, position_axis), 1, {.start = place * size, .stop = (place + 1) * size});
}

// Rows of the token table for tokens (B, T), or for the rank's of them where those along "tp" share them out.
Tensor GptParts::embedded(const Tensor& tokens) {
  const bool shared_out = place_.sequence_parallel;
  if (!place_.vocabulary_in_parts)
    return embedding(typed_table(), shared_out ? own_rows(as_rows(tokens), place_.tensor) : tokens);
  return shared_out ? vocab_parallel_embedding_in_parts(as_rows(tokens), typed_table(), tensor_axis)
                    : vocab_parallel_embedding(tokens, typed_table(), tensor_axis);
}

Tensor GptParts::embed(const Tensor& tokens) {
  if (tokens.rank() != 2 || tokens.dim(1) > options_.context)
    throw ShapeError(fmt::format("[GptParts] tokens are {}; expected (batch, length) with a length of at most {}",
                                 tokens.shape().str(), options_.context));
  const Tensor own = own_positions(tokens), rows = embedded(own);
  const Tensor& whole = typed_part(wpe_, place_.sequence_parallel);
  // Before it is cut the table varies: rows of other positions have their gradients on other ranks.
  const Tensor table = place_.positions.ranks > 1 ? distributed::pvary(whole, position_axis) : whole;
  const int64_t first = place_.positions.place * own.dim(1);
  Tensor places = slice(table, 0, {.start = first, .stop = first + own.dim(1)});
  if (place_.sequence_parallel)
    places = own_rows(as_rows(expand(places, {own.dim(0), own.dim(1), options_.width})), place_.tensor);
  const Tensor x = rows + places, wide = cast(x, promote(x.dtype(), DType::f32));
  return dropped(wide, options_.dropout, training(), place_.tensor, place_.sequence_parallel);
}

Tensor GptParts::run(const Tensor& x, const BlockRange& blocks, int64_t length) {
  Tensor y = x;
  for (int64_t i = blocks.first; i < blocks.second; ++i)
    y = blocks_.at(i).of_length(length / place_.positions.ranks)(y);
  return y;
}

Tensor GptParts::loss(const Tensor& x, const Tensor& targets, double smoothing) {
  if (place_.vocabulary_in_parts && smoothing > 0)
    throw ValueError("[GptParts] smoothed targets of a vocabulary in parts do not exist yet");
  Tensor last = normed(ln_f_, x, place_.sequence_parallel), classes = flatten(own_positions(targets));
  std::vector<std::string> axes = place_.batch_axes;
  if (place_.positions.ranks > 1) axes.emplace_back(position_axis);
  if (place_.sequence_parallel && place_.vocabulary_in_parts) {
    last = all_rows(last);
  } else if (place_.sequence_parallel) {
    classes = own_rows(classes, place_.tensor);
    axes.emplace_back(tensor_axis);
  }
  const Tensor logits = matmul(last, transpose(typed_table()));
  const Tensor rows = reshape(logits, {-1, logits.dim(-1)});
  CrossEntropyOptions options;
  options.label_smoothing = smoothing;
  const Tensor loss = place_.vocabulary_in_parts ? vocab_parallel_cross_entropy(rows, classes, tensor_axis)
                      : smoothing > 0            ? cross_entropy(rows, classes, options)
                                                 : cross_entropy(rows, classes);
  const bool of_rank = axes.empty() || (place_.apart && training());
  return of_rank ? loss : distributed::pmean(loss, axes);
}

Tensor GptParts::whole_loss(const Tensor& tokens, const Tensor& targets, double smoothing) {
  begin_pass();
  return loss(run(embed(tokens), {0, options_.layers}, tokens.dim(1)), targets, smoothing);
}

}  // namespace heddle::nn
