#include "heddle/distributed/call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "heddle/core/base/hash.h"

namespace heddle::distributed {
namespace {

constexpr uint32_t magic = 0x48444c32;  // "HDL2": the form below
constexpr size_t longest_line = 64;

// As it travels.
struct Wire {
  uint32_t magic;
  uint8_t operation, reduction, dtype, rank;
  int32_t root;
  uint32_t line_length;
  uint64_t group, sequence, sizes;
  int64_t dims[Shape::max_rank];
  char line[longest_line];
};
static_assert(sizeof(Wire) <= sizeof(CallHeader));

bool valid(const Wire& wire) {
  const bool known = wire.magic == magic && wire.operation <= static_cast<uint8_t>(Operation::barrier) &&
                     wire.reduction <= static_cast<uint8_t>(Reduction::min) && wire.dtype < dtype_count &&
                     wire.rank <= Shape::max_rank && wire.line_length <= longest_line;
  return known && std::all_of(wire.dims, wire.dims + wire.rank, [](int64_t dim) { return dim >= 0; });
}

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter;
}

// The two ends of a message are one operation to compare.
Operation compared(Operation operation) { return operation == Operation::receive ? Operation::send : operation; }

}  // namespace

std::string_view name_of(Operation operation) {
  constexpr std::array<std::string_view, 8> names = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all",
                                                     "broadcast",  "send",       "receive",        "barrier"};
  return names[static_cast<size_t>(operation)];
}

void Call::set_sizes(std::vector<int64_t> of_parts) {
  sizes = std::move(of_parts);
  sizes_hash = hash_bytes(sizes.data(), sizes.size() * sizeof(int64_t));
}

std::string Call::str() const {
  std::string text(name_of(operation));
  if (reduces(operation)) text += fmt::format(" {}", name_of(reduction));
  if (operation != Operation::barrier) text += fmt::format(" {} {}", heddle::name_of(dtype), shape.str());
  if (sizes_hash != 0) text += fmt::format(" in parts {:08x}", sizes_hash >> 32);
  if (operation == Operation::broadcast) text += fmt::format(" from {}", root);
  if (!line.empty()) text += fmt::format(" ({})", line);
  return text;
}

std::string Call::place() const { return fmt::format("[{}] call {} of {}", name_of(operation), sequence, group_name); }

CallHeader header_of(const Call& call) {
  Wire wire{};
  wire.magic = magic;
  wire.operation = static_cast<uint8_t>(call.operation);
  wire.reduction = static_cast<uint8_t>(call.reduction);
  wire.dtype = static_cast<uint8_t>(call.dtype);
  wire.rank = static_cast<uint8_t>(call.shape.rank());
  wire.root = call.root;
  wire.group = call.group;
  wire.sequence = call.sequence;
  wire.sizes = call.sizes_hash;
  std::copy(call.shape.begin(), call.shape.end(), wire.dims);
  wire.line_length = static_cast<uint32_t>(std::min(call.line.size(), longest_line));
  call.line.copy(wire.line, wire.line_length);
  CallHeader header{};
  std::memcpy(header.data(), &wire, sizeof(wire));
  return header;
}

std::optional<Call> call_of(const CallHeader& header) {
  Wire wire;
  std::memcpy(&wire, header.data(), sizeof(wire));
  if (!valid(wire)) return std::nullopt;
  Call call;
  call.operation = static_cast<Operation>(wire.operation);
  call.reduction = static_cast<Reduction>(wire.reduction);
  call.dtype = static_cast<DType>(wire.dtype);
  for (int i = 0; i < wire.rank; ++i) call.shape.push_back(wire.dims[i]);
  call.root = wire.root;
  call.group = wire.group;
  call.sequence = wire.sequence;
  call.sizes_hash = wire.sizes;
  call.line.assign(wire.line, wire.line_length);
  return call;
}

bool agree(const Call& a, const Call& b) {
  return compared(a.operation) == compared(b.operation) && (a.reduction == b.reduction || !reduces(a.operation)) &&
         a.dtype == b.dtype && a.shape == b.shape && a.sizes_hash == b.sizes_hash && a.root == b.root &&
         a.group == b.group && a.sequence == b.sequence;
}

std::string list_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  const std::vector<int> first(ranks.begin(), ranks.end() - 1);
  return fmt::format("ranks {} and {}", fmt::join(first, ", "), ranks.back());
}

std::string list_calls(const std::vector<RankCall>& calls) {
  std::vector<std::pair<std::string, std::vector<int>>> texts;  // in the order of their first rank
  for (const RankCall& each : calls) {
    const std::string text = each.call ? each.call->str() : "a call of another version of Heddle or another processor";
    const auto same = [&](const auto& known) { return known.first == text; };
    const auto found = std::find_if(texts.begin(), texts.end(), same);
    if (found == texts.end())
      texts.push_back({text, {each.rank}});
    else
      found->second.push_back(each.rank);
  }
  std::vector<std::string> parts;
  for (const auto& [text, ranks] : texts) parts.push_back(fmt::format("{}: {}", list_ranks(ranks), text));
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace heddle::distributed
