// From kernels to the commands of a recording: launches with their memory, over joined rows and iterations.
//
// Purpose: a planned kernel is one launch, or a few over the joined rows of a table (core/lower/joined_launch.h), or
// those of all iterations of a loop. Invariants: commands come in the order of the calls; `kernels` has one entry a
// command. Thread safety: a builder belongs to its thread, with the device locked.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "core/device/context.h"
#include "core/ir/groups.h"
#include "core/ir/lowered_kernel.h"

namespace heddle {

// Compiled kernels of a plan, those in the bodies of its loops included.
using KernelTable = std::unordered_map<const LoweredKernel*, KernelId>;
// Compiles what is new together. `kernels` must stay where they are.
KernelTable compile_kernels(DeviceContext& device, const std::vector<LoweredKernel>& kernels);

// What a recording is made of: the table belongs to launches over many joined rows.
struct Bound {
  std::vector<Command> list;
  std::vector<const LoweredKernel*> kernels;  // of each command; null: a copy
  std::vector<int32_t> rows;                  // of all tables
  StoragePtr table;
  size_t launches = 0;  // of kernels, and transfers
};

class CommandBuilder {
 public:
  CommandBuilder(DeviceContext& device, const KernelTable& kernels) : device_(device), kernels_(kernels) {}
  using Bind = std::function<std::vector<Binding>(const std::vector<SlotRef>&)>;
  // `host`: where the graph's host values lie.
  void add(const LoweredKernel& kernel, const Binding& host, const Bind& bind);
  // As many bytes as the smaller of both has.
  void copy(Binding source, Binding target);
  // To or from memory of the host.
  void transfer(const Copy& copy);
  // Uploads the table.
  Bound take();

 private:
  void add_joined(const LoweredKernel& kernel, const Bind& bind);
  void add_loop(const LoweredKernel& kernel, const Binding& host, const std::vector<Binding>& outer);
  void check(const std::vector<Binding>& bindings, const LoweredKernel& kernel) const;
  void push(Dispatch dispatch, const LoweredKernel& kernel);

  DeviceContext& device_;
  const KernelTable& kernels_;
  Bound bound_;
};

}  // namespace heddle
