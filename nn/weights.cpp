#include "heddle/nn/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/glob.h"
#include "heddle/core/device/context.h"

namespace heddle::nn {
namespace {

int64_t set_trained(const Module& module, const std::string& pattern, bool on) {
  int64_t count = 0;
  std::vector<std::string> names;
  for (auto [name, parameter] : module.named_parameters()) {
    names.push_back(name);
    if (!fits_pattern(name, pattern)) continue;
    parameter.set_requires_grad(on);
    ++count;
  }
  if (count == 0)
    throw ValueError(fmt::format("[{}] no parameter of {} fits '{}'; there are {}", on ? "unfreeze" : "freeze",
                                 module.kind(), pattern, fmt::join(names, ", ")));
  return count;
}

std::string form(const Tensor& tensor) { return fmt::format("{} {}", tensor.shape().str(), name_of(tensor.dtype())); }

// Projections of a block of GPT-2, which Hugging Face keeps as (in, out).
bool is_projection(const std::string& name) {
  static constexpr std::string_view all[] = {"attn.c_attn.weight", "attn.c_proj.weight", "mlp.c_fc.weight",
                                             "mlp.c_proj.weight"};
  return name.starts_with("h.") && std::ranges::any_of(all, [&](std::string_view end) { return name.ends_with(end); });
}

bool is_mask(const std::string& name) { return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"); }

// Whether the projections are (in, out), as c_attn, which is not square, says.
bool in_by_out(const StateDict& state) {
  for (const auto& [name, tensor] : state) {
    if (!name.ends_with("attn.c_attn.weight")) continue;
    if (tensor.rank() == 2 && tensor.dim(1) == 3 * tensor.dim(0)) return true;
    if (tensor.rank() == 2 && tensor.dim(0) == 3 * tensor.dim(1)) return false;
    throw ShapeError(
        fmt::format("[from_gpt2] {} is {}; expected (width, 3 width) or (3 width, width)", name, tensor.shape().str()));
  }
  return false;
}

StateDict with_transposed_projections(StateDict state) {
  const NoGradScope no_grad;
  for (auto& [name, tensor] : state) {
    if (is_projection(name)) tensor = transpose(tensor.detach());
  }
  return state;
}

}  // namespace

int64_t freeze(const Module& module, const std::string& pattern) { return set_trained(module, pattern, false); }
int64_t unfreeze(const Module& module, const std::string& pattern) { return set_trained(module, pattern, true); }

LoadReport load_matching(Module& module, const StateDict& state, const std::vector<std::string>& except) {
  const NoGradScope no_grad;
  LoadReport report;
  const StateDict own = module.state_dict();
  for (auto [name, target] : own) {
    const auto found = state.find(name);
    if (std::ranges::any_of(except,
                            [&, &path = name](const std::string& pattern) { return fits_pattern(path, pattern); })) {
      report.excepted.push_back(name);
    } else if (found == state.end()) {
      report.missing.push_back(name);
    } else if (found->second.shape() != target.shape() || is_float(found->second.dtype()) != is_float(target.dtype())) {
      report.mismatched.push_back(fmt::format("{}: {} here, {} in the state", name, form(target), form(found->second)));
    } else {
      target.assign(cast(found->second.detach().to(target.device()), target.dtype()));
      report.loaded.push_back(name);
    }
  }
  for (const auto& [name, tensor] : state) {
    if (!own.contains(name)) report.unexpected.push_back(name);
  }
  return report;
}

std::string LoadReport::str() const {
  std::string text = fmt::format("loaded: {}\n", loaded.size());
  const auto list = [&](const char* what, const std::vector<std::string>& names, const char* between) {
    if (!names.empty()) text += fmt::format("{}: {}\n", what, fmt::join(names, between));
  };
  list("as they were", excepted, ", ");
  list("missing", missing, ", ");
  list("unexpected", unexpected, ", ");
  list("of another shape", mismatched, "; ");
  return text;
}

StateDict from_torchvision(StateDict saved) {
  std::erase_if(saved, [](const auto& entry) { return entry.first.ends_with(".num_batches_tracked"); });
  return saved;
}

StateDict from_gpt2(const StateDict& saved) {
  static constexpr std::string_view prefix = "transformer.";
  StateDict state;
  for (const auto& [name, tensor] : saved) {
    const std::string ours = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    if (ours != "lm_head.weight" && !is_mask(ours)) state.emplace(ours, tensor);
  }
  return in_by_out(state) ? with_transposed_projections(std::move(state)) : state;
}

StateDict to_gpt2(const StateDict& state) { return with_transposed_projections(state); }

}  // namespace heddle::nn
