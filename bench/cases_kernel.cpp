// kernel: one launch that a verbose line named, alone (core/inspect/saved_launch.h).
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/inspect/saved_launch.h"
#include "heddle/core/run/replay.h"

namespace heddle::bench {
namespace {

// From so many operations per byte on, products; below, what waits for memory.
constexpr double much_computing = 16;

Case parse_kernel(const std::string& name, DType) {
  const std::optional<SavedLaunch> found = load_launch(name);
  if (!found) {
    throw ValueError(
        fmt::format("[bench] no launch '{}' is kept; ids come from lines of HEDDLE_DEBUG=1, `heddle bench --verbose` "
                    "and `heddle profile --json`, and last as long "
                    "as the disk cache of this version of Heddle (heddle cache)",
                    name));
  }
  const auto saved = std::make_shared<SavedLaunch>(*found);
  Case c;
  c.flops = saved->flops;
  c.bytes = saved->bytes;
  for (const uint64_t bytes : saved->blocks) {
    c.largest_bytes = std::max(c.largest_bytes, static_cast<double>(bytes));
    c.resident_bytes += static_cast<double>(bytes);
  }
  c.bound = c.flops > much_computing * c.bytes ? Bound::compute : Bound::copy;
  c.stateful = true;  // what it computes of random numbers is compared with nothing
  c.make = [saved](const Environment& env) {
    auto restored = std::make_shared<RestoredLaunch>(restore_launch(*saved, env.device));
    RecordingId id = RecordingId::none;
    {
      auto locked = env.device.lock();
      const Command command = restored->dispatch;
      id = locked.device.record(std::span(&command, 1), false);
    }
    const auto kept = std::make_shared<KeptRecording>(env.device, id, 1, restored->memory);
    Workload w;
    w.run = [kept] {
      {
        auto locked = kept->device().lock();
        kept->device().remember(locked.device.submit(kept->id()));
      }
      if (Replay::capturing()) Replay::note(kept, {}, false);
      return std::vector<Tensor>{};
    };
    return w;
  };
  return c;
}

}  // namespace

Family kernel_family() { return {"kernel", "an id that a verbose line printed", {}, {DType::f32}, {}, parse_kernel}; }

}  // namespace heddle::bench
