// CompiledGraph: a captured graph with its plan on a device, its kernels compiled, its recordings.
//
// Purpose: evaluate() hands the pending graph here. A graph with the same structure (ops, attributes, shapes, dtypes,
// views, outputs, assigns) as an earlier one is found in the device's cache (core/run/graph_cache.h); only the buffers
// bound to it change. Invariants: it runs an image (core/run/image.h) and keeps what only the process that planned it
// can say: the lines of the user, the memory report. Thread safety: any thread may run it, several at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/base/caller.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/memory/memory_report.h"

namespace heddle {

// Told of Capture::early, by number: the submission that ends it has been made.
using Ready = Callable<void(size_t early, const Event& end)>;

class Launcher;
struct Capture;
struct GraphImage;
struct GraphResult;

class CompiledGraph {
 public:
  // Simplifies, schedules, lowers and plans; compiles every kernel. With `fuse` false every vertex is a kernel of its
  // own. `varies`: core/ir/dynamic_sizes.h.
  static std::shared_ptr<CompiledGraph> compile(DeviceContext& device, const Capture& captured, bool fuse,
                                                const std::vector<uint16_t>& varies);
  ~CompiledGraph();
  // Enqueues the graph on the captured storages and host values. `own`: storages of an earlier run that nobody needs
  // any more, instead of new ones. `ready` is called without the device's lock, between segments and at the end.
  GraphResult run(const Capture& captured, const std::vector<std::shared_ptr<Storage>>* own = nullptr,
                  const Ready& ready = {});
  const GraphImage& image() const;
  uint64_t arena_bytes() const;
  // What it needs, for what, and what was held when it ran last.
  MemoryReport memory() const;
  // "; computes model.cpp:17": the lines of the kernels that an error's text names, or "".
  std::string lines_note(std::string_view text) const;

 private:
  CompiledGraph() = default;
  static Event end_of(const GraphResult& result);
  void name_chain(const std::string& name, size_t first, size_t count);
  std::string note(std::string_view text, bool all) const;
  std::string note_fullest() const;

  std::unique_ptr<Launcher> launcher_;
  std::vector<size_t> early_;       // by Capture::early, the segment that ends it
  std::vector<std::string> names_;  // by kernel of the plan, then of chains
  // The user's lines that each kernel computes, in the same order; those of the graph that this was compiled for
  // (core/ir/source_lines.h).
  std::vector<std::vector<SourceLine>> lines_;
  size_t fullest_ = 0;  // the kernel during which most temporaries are alive
  MemoryReport report_;
};

}  // namespace heddle
