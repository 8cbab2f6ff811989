#include "heddle/train/model_parallel/parted_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <sstream>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/device/registry.h"
#include "heddle/io/sha256.h"
#include "heddle/train/prefix.h"

namespace heddle::train {
namespace {

constexpr std::string_view model_prefix = "model.", average_prefix = "average.";

// "optimizer.3.m" is the prefix, 3 and ".m".
struct Numbered {
  std::string_view prefix;
  size_t number = 0;
  std::string rest;
};

std::optional<Numbered> numbered(const std::string& name) {
  for (const std::string_view prefix : {optimizer_prefix, average_prefix}) {
    if (!name.starts_with(prefix)) continue;
    const std::string rest = name.substr(prefix.size());
    const size_t end = std::min(rest.find('.'), rest.size());
    if (const auto number = parse_number<int64_t>(rest.substr(0, end)); number && *number >= 0)
      return Numbered{prefix, static_cast<size_t>(*number), rest.substr(end)};
  }
  return std::nullopt;
}

}  // namespace

// A tensor, and who has a part of it: the first rank of the group for each place along the axis that cuts it.
struct PartedTensors::Entry {
  std::string name;  // in files
  DType dtype = DType::f32;
  Shape part;
  std::map<int64_t, size_t> owners;  // by place along that axis: place in the group
};

const PartedParameter* PartedTensors::parameter_of(const std::string& name) const {
  const std::vector<PartedParameter>& all = model_.parameters();
  if (const auto parts = numbered(name)) return parts->number < all.size() ? &all[parts->number] : nullptr;
  const auto found = std::ranges::find_if(
      all, [&](const PartedParameter& p) { return name == fmt::format("{}{}", model_prefix, p.name); });
  return found == all.end() ? nullptr : &*found;
}

// A state that has not the parameter's shape (a count of steps) is whole.
nn::ParameterCut PartedTensors::cut_of(const std::string& name, const Shape& part) const {
  const PartedParameter* parameter = parameter_of(name);
  const int64_t ranks = model_.module().cut_place().ranks;
  if (parameter == nullptr || ranks == 1 || nn::shape_of_part(parameter->whole, parameter->cut, ranks) != part)
    return {};
  return parameter->cut;
}

std::string PartedTensors::global_name(const std::string& name) const {
  const auto parts = numbered(name);
  return parts ? fmt::format("{}{}{}", parts->prefix, model_.own().at(parts->number), parts->rest) : name;
}

// Bytes of all places of the group, one behind the other.
std::vector<uint8_t> PartedTensors::gather(const std::vector<uint8_t>& mine, const std::vector<int64_t>& sizes) {
  std::vector<uint8_t> all(static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0})));
  const auto first = std::accumulate(sizes.begin(), sizes.begin() + model_.group().rank(), int64_t{0});
  std::copy(mine.begin(), mine.end(), all.begin() + first);
  if (!all.empty()) model_.group().all_gather(all.data(), DType::u8, sizes).wait();
  return all;
}

// What each has travels as lines "name dtype place sizes".
std::vector<PartedTensors::Entry> PartedTensors::entries_of_all(const TensorMap& own) {
  std::string text;
  const int64_t place = model_.module().cut_place().place;
  for (const auto& [name, tensor] : own) {
    std::vector<int64_t> dims;
    for (int axis = 0; axis < tensor.rank(); ++axis) dims.push_back(tensor.dim(axis));
    text += fmt::format("{} {} {} {}\n", global_name(name), name_of(tensor.dtype()), place, fmt::join(dims, " "));
  }
  const auto size = static_cast<int64_t>(text.size());
  std::vector<int64_t> sizes(static_cast<size_t>(model_.group().size()));
  model_.group().all_gather(&size, sizes.data(), DType::i64, Shape()).wait();
  const std::vector<uint8_t> all = gather({text.begin(), text.end()}, sizes);
  std::map<std::string, Entry> entries;
  size_t at = 0;
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    std::istringstream lines(std::string(all.begin() + static_cast<std::ptrdiff_t>(at),
                                         all.begin() + static_cast<std::ptrdiff_t>(at) + sizes[rank]));
    at += static_cast<size_t>(sizes[rank]);
    for (std::string line; std::getline(lines, line);) {
      std::istringstream words(line);
      std::string name, dtype;
      int64_t tensor_place = 0;
      words >> name >> dtype >> tensor_place;
      std::vector<int64_t> dims;
      for (int64_t dim = 0; words >> dim;) dims.push_back(dim);
      Entry& entry = entries[name];
      entry.name = name;
      entry.dtype = parse_dtype(dtype);
      entry.part = Shape(dims);
      entry.owners.emplace(tensor_place, rank);
    }
  }
  std::vector<Entry> list;
  for (auto& [name, entry] : entries) list.push_back(std::move(entry));
  return list;
}

void PartedTensors::each(const TensorMap& own, const See& see) {
  const auto me = static_cast<size_t>(model_.group().rank());
  std::map<std::string, Tensor> mine;
  for (const auto& [name, tensor] : own) mine.emplace(global_name(name), tensor);
  for (const Entry& entry : entries_of_all(own)) {
    const nn::ParameterCut cut = cut_of(entry.name, entry.part);
    const int64_t ranks = model_.module().cut_place().ranks;
    const auto part_bytes = static_cast<size_t>(entry.part.numel()) * size_of(entry.dtype);
    std::vector<int64_t> sizes(static_cast<size_t>(model_.group().size()), 0);
    std::map<size_t, int64_t> places;  // by place in the group: along that axis
    for (const auto& [place, owner] : entry.owners) {
      if (cut.whole() && !places.empty()) break;
      sizes[owner] = static_cast<int64_t>(part_bytes);
      places.emplace(owner, place);
    }
    const std::vector<uint8_t> all =
        gather(places.contains(me) ? mine.at(entry.name).to_bytes() : std::vector<uint8_t>(), sizes);
    const Shape shape = nn::shape_of_whole(entry.part, cut, ranks);
    std::vector<uint8_t> whole(static_cast<size_t>(shape.numel()) * size_of(entry.dtype));
    size_t at = 0;
    for (const auto& [owner, place] : places) {
      nn::put_part(std::span(all).subspan(at, part_bytes), whole, shape, size_of(entry.dtype), cut, {ranks, place});
      at += part_bytes;
    }
    see({entry.name, entry.dtype, shape, {}}, std::move(whole));
  }
}

TensorMap PartedTensors::joined(const TensorMap& own) {
  TensorMap all;
  if (model_.replicas().along("dp").place != 0) return all;
  const bool keeps = model_.replicas().leads();
  each(own, [&](const Entry& entry, const std::vector<uint8_t>& bytes) {
    if (keeps)
      all.emplace(entry.name, Tensor::from_bytes(bytes.data(), static_cast<size_t>(entry.part.numel()), entry.dtype,
                                                 entry.part, &device("reference:0")));
  });
  return all;
}

TensorMap PartedTensors::joined_weights() {
  TensorMap own;
  add_with_prefix(own, model_prefix, model_.module().state_dict());
  return with_prefix(joined(own), model_prefix);
}

TensorMap PartedTensors::own_of(const TensorMap& whole) {
  TensorMap own;
  const nn::CutPlace& at = model_.module().cut_place();
  const std::vector<size_t>& mine = model_.own();
  for (const auto& [name, tensor] : whole) {
    const PartedParameter* parameter = parameter_of(name);
    if (parameter == nullptr) {
      own.emplace(name, tensor.to(model_.device()));
      continue;
    }
    const auto number = static_cast<size_t>(parameter - model_.parameters().data());
    const auto found = std::ranges::find(mine, number);
    if (found == mine.end()) continue;
    const auto parts = numbered(name);
    const std::string here = parts ? fmt::format("{}{}{}", parts->prefix, found - mine.begin(), parts->rest) : name;
    const bool same = tensor.shape() == parameter->whole;
    own.emplace(here, nn::part_of(tensor, same ? parameter->cut : nn::ParameterCut{}, at, model_.device()));
  }
  return own;
}

// One parameter after the other: no rank has all of them at a time.
std::string PartedTensors::parameters_sha256() {
  std::map<std::string, Tensor> mine;
  for (const auto& [name, value] : model_.module().named_parameters()) mine.emplace(name, value);
  Sha256 hash;
  for (const PartedParameter& parameter : model_.parameters()) {
    TensorMap own;
    if (const auto found = mine.find(parameter.name); found != mine.end())
      own.emplace(fmt::format("{}{}", model_prefix, parameter.name), found->second);
    each(own, [&](const Entry&, const std::vector<uint8_t>& bytes) { hash.update(bytes); });
  }
  return hex_of(hash.digest());
}

}  // namespace heddle::train
