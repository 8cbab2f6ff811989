// The passes between the recorded graph and kernels: their names, and which of them are switched on.
//
// Purpose: every rewrite of the planner belongs to a named pass that can be switched off, by the environment
// (HEDDLE_PASSES=-cse,-fold), or by a scope in a test. Invariants: a plan means the same whatever is switched off; it
// is only slower or larger. Passes that a device cannot do without (a sort longer than one kernel takes) are marked
// `required` and refuse to be switched off; of the others, single rewrites that a device's limits demand happen all the
// same. The set is part of the key of a cached plan. Thread safety: a scope belongs to the thread that made it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

// In the order in which `heddle dump --passes` shows them.
enum class Pass : uint8_t {
  fold,
  identities,
  casts,
  movement,
  products,
  scales,
  cse,
  dead,   // of every graph
  parts,  // what accumulates
  softmax,
  norms,
  activations,
  attention,
  batch_norm,  // patterns
  recompute,   // what checkpoint() marked
  split_conv,
  split_matmul,
  split_attention,
  pair_attention,
  split_reduce,
  sort,
  scan,
  scatter,  // of a device
  fuse,
  cheap,
  siblings,
  order,
  horizontal,  // of kernels
  count_
};

enum class PassStage : uint8_t { graph, pattern, device, kernels };

struct PassInfo {
  Pass pass;
  std::string_view name;
  PassStage stage;
  bool required;
  std::string_view doc;
};
std::span<const PassInfo> all_passes();
const PassInfo& info_of(Pass pass);

class PassSet {
 public:
  static PassSet all();
  static PassSet required();
  bool has(Pass pass) const { return (bits_ >> static_cast<int>(pass) & 1) != 0; }
  PassSet with(Pass pass) const { return PassSet(bits_ | uint64_t{1} << static_cast<int>(pass)); }
  PassSet without(Pass pass) const { return PassSet(bits_ & ~(uint64_t{1} << static_cast<int>(pass))); }
  uint64_t bits() const { return bits_; }
  bool operator==(const PassSet&) const = default;

 private:
  explicit PassSet(uint64_t bits) : bits_(bits) {}
  uint64_t bits_ = 0;
};

// "-cse,-fold": all but those; "none": only required ones; "none,+cse"; "all". From left to right; empty is all.
// ValueError for a name that is no pass (with the known ones) and for switching off a required one.
PassSet parse_passes(std::string_view text);

// What is switched on for this thread: the innermost PassScope's set, else that of HEDDLE_PASSES.
PassSet active_passes();

class PassScope {
 public:
  explicit PassScope(PassSet passes);
  explicit PassScope(std::string_view text) : PassScope(parse_passes(text)) {}
  ~PassScope();
  PassScope(const PassScope&) = delete;
  PassScope& operator=(const PassScope&) = delete;

 private:
  const PassSet* before_;
  PassSet passes_;
};

}  // namespace heddle
