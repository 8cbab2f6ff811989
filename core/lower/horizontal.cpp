#include "heddle/core/lower/horizontal.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <stdexcept>
#include <utility>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/schedule/early_order.h"
#include "heddle/core/schedule/kernel_order.h"

namespace heddle {
namespace {

constexpr int64_t most_temporary_bytes = 64 << 10;  // that a joined kernel may write
constexpr int64_t most_waiting_bytes =
    4 << 20;  // of temporaries that kernels may keep alive while they wait for others to join

class HorizontalFusion {
 public:
  HorizontalFusion(const ScheduledGraph& scheduled, std::vector<LoweredKernel> kernels,
                   const std::vector<const Group*>& groups, const Caps& caps, const LowerOptions& options,
                   LoweredKernel (*lower_group)(const LowerInput& in))
      : varies_(anything_varies(scheduled.graph)),
        scheduled_(scheduled),
        kernels_(std::move(kernels)),
        groups_(groups),
        caps_(caps),
        options_(options),
        lower_group_(lower_group) {
    options_.joined = true;
  }

  std::vector<LoweredKernel> run() {
    find_classes();
    if (class_sizes_.empty()) return std::move(kernels_);
    emit(KernelDependencies(kernels_));
    return std::move(out_);
  }

 private:
  size_t count() const { return kernels_.size(); }

  // ---- classes: kernels whose joined form has one text, and which are needed for the same early output
  void find_classes() {
    class_of_.assign(count(), -1);
    needed_for_ = scheduled_.early.empty() ? std::vector<size_t>(count()) : first_needed_for(scheduled_, kernels_);
    std::map<std::pair<size_t, std::string>, std::vector<size_t>> alike, by_text;
    for (size_t k = 0; k < count(); ++k) {
      if (may_join(k)) alike[{needed_for_[k], fingerprint(kernels_[k])}].push_back(k);
    }
    joined_.resize(count());
    for (const auto& [print, members] : alike) {
      if (members.size() < 2) continue;
      for (size_t k : members) {
        joined_[k] = lower_group_({scheduled_, *groups_[k], caps_, options_});
        const KernelSource& source = joined_[k].source;
        if (source.buffers.size() > caps_.max_bindings || joined_[k].joined[0].constants.size() > most_joined_numbers)
          continue;
        by_text[{needed_for_[k], source.str()}].push_back(k);
      }
    }
    for (const auto& [text, members] : by_text) {
      if (members.size() < 2) continue;
      for (size_t k : members) class_of_[k] = static_cast<int>(class_sizes_.size());
      class_sizes_.push_back(members.size());
    }
  }

  // What equal kernels have in common whatever their sizes; cheap to find.
  static std::string fingerprint(const LoweredKernel& kernel) {
    std::string text = kernel.source.name;
    for (const BufferParam& buffer : kernel.source.buffers)
      text += fmt::format(" {}{}", name_of(buffer.dtype), static_cast<int>(buffer.access));
    return text;
  }

  int64_t bytes(int vertex) const {
    return scheduled_.graph.nodes[vertex].shape.numel() *
           static_cast<int64_t>(size_of(scheduled_.graph.nodes[vertex].dtype));
  }

  bool outlives_step(int vertex) const {
    return std::any_of(scheduled_.outputs.begin(), scheduled_.outputs.end(),
                       [&](const OutputPlan& output) { return output.base == vertex; });
  }

  bool may_join(size_t k) const {
    if (!kernels_[k].parallel) return false;
    int64_t written = 0;
    for (int vertex : kernels_[k].writes) {
      if (!outlives_step(vertex)) written += bytes(vertex);
    }
    return written <= most_temporary_bytes;
  }

  // What the graph's temporaries need anyway decides how much waiting may cost.
  int64_t waiting_budget(const TemporaryBytes& temporaries) const {
    std::vector<size_t> given(count());
    std::iota(given.begin(), given.end(), size_t{0});
    return std::clamp<int64_t>(temporaries.peak(given) / 32, 256 << 10, most_waiting_bytes);
  }

  // ---- order: as given, but a kernel that has equals waits for them as long as something else can run that is needed
  // for the same early output
  void emit(KernelDependencies dependencies) {
    const TemporaryBytes temporaries(scheduled_, kernels_);
    const int64_t budget = waiting_budget(temporaries);
    std::vector<size_t> left = class_sizes_;  // of each class, not emitted
    Liveness alive(temporaries);
    int64_t ahead = 0;                            // bytes that others took while somebody waited
    std::vector<size_t> at_hand(left.size(), 0);  // of those, ready
    std::set<size_t> ready;
    const auto make_ready = [&](size_t k) {
      ready.insert(k);
      if (class_of_[k] >= 0) ++at_hand[static_cast<size_t>(class_of_[k])];
    };
    for (size_t k = 0; k < count(); ++k) {
      if (dependencies.waiting[k] == 0) make_ready(k);
    }
    while (!ready.empty()) {
      const auto next = ready.find(pick(ready, temporaries, alive, budget - ahead, [&](size_t k) {
        const int c = class_of_[k];
        return c >= 0 && at_hand[static_cast<size_t>(c)] < left[static_cast<size_t>(c)];
      }));
      ahead = next == ready.begin() ? 0 : ahead + std::max<int64_t>(0, alive.takes(*next) - alive.gives(*next));
      const int c = class_of_[*next];
      std::vector<size_t> batch;
      if (c < 0)
        batch.push_back(*next);
      else
        std::copy_if(ready.begin(), ready.end(), std::back_inserter(batch),
                     [&](size_t k) { return class_of_[k] == c; });
      for (size_t k : batch) ready.erase(k);
      if (c >= 0) {
        left[static_cast<size_t>(c)] -= batch.size();
        at_hand[static_cast<size_t>(c)] = 0;
      }
      // Who waits for whom is a matter of sizes: where they vary, one alone has the text of many.
      const bool alone = batch.size() == 1 && (c < 0 || !varies_);
      out_.push_back(alone ? std::move(kernels_[batch[0]]) : joined(batch));
      for (size_t k : batch) {
        alive.run(k);
        for (size_t later : dependencies.after[k]) {
          if (--dependencies.waiting[later] == 0) make_ready(later);
        }
      }
    }
    size_t emitted = 0;
    for (const LoweredKernel& kernel : out_) emitted += std::max<size_t>(1, kernel.joined.size());
    if (emitted != count()) throw std::logic_error("[lower] kernels depend on each other in a circle");
  }

  // The first that need not wait for its equals. What waits keeps its inputs alive, and what runs instead may take
  // memory: when that comes to more than the budget, the first runs.
  size_t pick(const std::set<size_t>& ready, const TemporaryBytes& temporaries, const Liveness& alive, int64_t budget,
              const auto& waits) const {
    std::set<size_t> kept;
    for (size_t k : ready) {
      if (needed_for_[k] != needed_for_[*ready.begin()]) break;
      if (!waits(k)) return alive.takes(k) - alive.gives(k) <= budget || k == *ready.begin() ? k : *ready.begin();
      for (size_t t : temporaries.of(k).reads) budget -= kept.insert(t).second ? temporaries.bytes(t) : 0;
      if (budget < 0) return *ready.begin();
    }
    return *ready.begin();
  }

  LoweredKernel joined(const std::vector<size_t>& batch) {
    LoweredKernel kernel = std::move(joined_[batch[0]]);
    for (size_t i = 1; i < batch.size(); ++i) {
      LoweredKernel& other = joined_[batch[i]];
      kernel.joined.push_back(std::move(other.joined[0]));
      kernel.writes.insert(kernel.writes.end(), other.writes.begin(), other.writes.end());
      kernel.vertices.insert(kernel.vertices.end(), other.vertices.begin(), other.vertices.end());
      kernel.loop_iterations = std::max(kernel.loop_iterations, other.loop_iterations);
    }
    return kernel;
  }

  const bool varies_;
  const ScheduledGraph& scheduled_;
  std::vector<LoweredKernel> kernels_;
  const std::vector<const Group*>& groups_;
  const Caps& caps_;
  LowerOptions options_;
  LoweredKernel (*lower_group_)(const LowerInput& in);
  std::vector<LoweredKernel> joined_;  // by kernel; empty where there was no reason to lower it again
  std::vector<int> class_of_;          // by kernel; -1: none
  std::vector<size_t> needed_for_;     // by kernel: the first early output that needs it
  std::vector<size_t> class_sizes_;
  std::vector<LoweredKernel> out_;
};

}  // namespace

std::vector<LoweredKernel> fuse_horizontally(const ScheduledGraph& scheduled, std::vector<LoweredKernel> kernels,
                                             const std::vector<const Group*>& groups, const Caps& caps,
                                             const LowerOptions& options,
                                             LoweredKernel (*lower_group)(const LowerInput& in)) {
  return HorizontalFusion(scheduled, std::move(kernels), groups, caps, options, lower_group).run();
}

void make_joined(KernelSource& source, size_t constants) {
  std::string text =
      "int t_place = CAST(int, GROUP_LINEAR);\nif (t_place < t_total) {\nint t_seg = LOAD(t_table, t_place);\n";
  text += "int t_group = t_place - LOAD(t_table, t_seg);\n";
  size_t at = 1;
  for (size_t b = 0; b < source.buffers.size(); ++b)
    text += fmt::format("int t_o{} = LOAD(t_table, t_seg + {});\n", b, at++);
  for (size_t c = 0; c < constants; ++c) text += fmt::format("int t_c{} = LOAD(t_table, t_seg + {});\n", c, at++);
  source.body = text + source.body + "}\n";
  // The ranges bound are those of whole blocks: they overlap, the joined rows inside do not.
  for (BufferParam& buffer : source.buffers) buffer.may_alias = buffer.scattered = true;
  source.buffers.push_back({"t_table", DType::i32, Access::read});
  source.constants = {{"t_total", ConstParam::Type::i32}};
  source.name += "_many";
}

}  // namespace heddle
