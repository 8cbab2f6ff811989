#include "heddle/core/simplify/passes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/trace.h"

namespace heddle {
namespace {

using enum PassStage;

constexpr PassInfo table[] = {
    {Pass::fold, "fold", graph, false, "constants are computed on the host"},
    {Pass::identities, "identities", graph, false, "x + 0, x * 1, x / 2^n, pow(x, 2), sums over axes of size 1"},
    {Pass::casts, "casts", graph, false, "a cast of a cast that lost nothing is one cast"},
    {Pass::movement, "movement", graph, false,
     "views of views are one; slices of pads and concats read what is behind them"},
    {Pass::products, "products", graph, false, "(a b)^T is b^T a^T; a sum of batched products is one product"},
    {Pass::scales, "scales", graph, false, "scales of quantised operands move behind the product"},
    {Pass::cse, "cse", graph, false, "equal vertices are computed once"},
    {Pass::dead, "dead", graph, false, "what nobody reads is dropped"},
    {Pass::parts, "parts", pattern, false,
     "a small gradient accumulated over parts of a batch is computed of all parts together"},
    {Pass::softmax, "softmax", pattern, false, "a hand-written softmax or log-softmax is the library's"},
    {Pass::norms, "norms", pattern, false, "a hand-written layer or RMS norm is the library's"},
    {Pass::activations, "activations", pattern, false, "a hand-written GELU or SiLU is one operation"},
    {Pass::attention, "attention", pattern, false,
     "softmax(scale q k^T + mask) v is one kernel without the matrix of scores"},
    {Pass::batch_norm, "batch-norm", pattern, false,
     "scales and shifts of channels become part of a convolution's or product's weights"},
    {Pass::recompute, "recompute", pattern, false,
     "what checkpoint() marked, and a weight in half precision, is computed again for the backward pass"},
    {Pass::split_conv, "split-conv", device, false, "long sums of convolutions in parts"},
    {Pass::split_matmul, "split-matmul", device, false, "long inner dimensions in parts, those of size 1 elementwise"},
    {Pass::split_attention, "split-attention", device, false, "few queries over many keys in ranges of keys"},
    {Pass::pair_attention, "pair-attention", device, false, "attention's gradients in one kernel"},
    {Pass::split_reduce, "split-reduce", device, false, "long reductions in stages"},
    {Pass::sort, "sort", device, true, "long sorts in blocks and merges"},
    {Pass::scan, "scan", device, true, "running sums in chunks"},
    {Pass::scatter, "scatter", device, false, "many picks are sorted and summed in runs"},
    {Pass::fuse, "fuse", kernels, false, "several vertices in one kernel"},
    {Pass::cheap, "cheap", kernels, false, "cheap values are computed again by their readers instead of stored"},
    {Pass::siblings, "siblings", kernels, false, "updates that read the same memory are one kernel"},
    {Pass::order, "order", kernels, false, "kernels in the order that needs least memory"},
    {Pass::horizontal, "horizontal", kernels, false, "independent kernels of one text are one launch"},
};
static_assert(std::size(table) == static_cast<size_t>(Pass::count_));

thread_local const PassSet* scoped = nullptr;

std::vector<std::string_view> names() {
  std::vector<std::string_view> all;
  for (const PassInfo& info : table) all.push_back(info.name);
  return all;
}

const PassInfo& find(std::string_view name) {
  const auto* at =
      std::find_if(std::begin(table), std::end(table), [&](const PassInfo& info) { return info.name == name; });
  if (at == std::end(table))
    throw ValueError(fmt::format("[passes] unknown pass '{}'; known: {}", name, fmt::join(names(), ", ")));
  return *at;
}

PassSet from_environment() {
  const char* text = std::getenv("HEDDLE_PASSES");
  return parse_passes(text ? text : "");
}

}  // namespace

std::span<const PassInfo> all_passes() { return table; }
const PassInfo& info_of(Pass pass) { return table[static_cast<size_t>(pass)]; }

PassSet PassSet::all() { return PassSet((uint64_t{1} << static_cast<int>(Pass::count_)) - 1); }

PassSet PassSet::required() {
  PassSet set(0);
  for (const PassInfo& info : table) {
    if (info.required) set = set.with(info.pass);
  }
  return set;
}

PassSet parse_passes(std::string_view text) {
  PassSet set = PassSet::all();
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (word.empty()) continue;
    if (word == "all") {
      set = PassSet::all();
    } else if (word == "none") {
      set = PassSet::required();
    } else if (word.front() == '-' || word.front() == '+') {
      const PassInfo& info = find(word.substr(1));
      if (word.front() == '-' && info.required) {
        throw ValueError(fmt::format(
            "[passes] '{}' cannot be switched off: without it there is no kernel for the operation", info.name));
      }
      set = word.front() == '-' ? set.without(info.pass) : set.with(info.pass);
    } else {
      find(word);  // an unknown name first
      throw ValueError(
          fmt::format("[passes] '{}' says neither on nor off; did you mean -{} or +{}?", word, word, word));
    }
  }
  return set;
}

PassSet active_passes() {
  if (scoped) return *scoped;
  static const PassSet set = from_environment();
  return set;
}

PassScope::PassScope(PassSet passes) : before_(scoped), passes_(passes) {
  scoped = &passes_;
  trace::host_state_changed();  // compiled functions look again
}

PassScope::~PassScope() {
  scoped = before_;
  trace::host_state_changed();
}

}  // namespace heddle
