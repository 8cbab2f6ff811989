// GraphImage: a plan as plain data that a device can load and launch.
//
// Purpose: the planner's result without graph, ops or vertices: kernels, launches in order, and where their buffers
// lie. One launcher (core/run/launcher.h) runs it, whether it was just planned, read from a file or made by another
// process, so numbers are equal by construction. core/run/image_bytes.h writes and reads it. Invariants: no addresses,
// no names of devices' objects; every index lies in the list it points into (image_fault()). Thread safety: plain
// value.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/base/view.h"
#include "heddle/core/contract/kernel_binary.h"
#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/inspect/kernel_facts.h"
#include "heddle/core/memory/loop_places.h"

namespace heddle {

struct GraphImage {
  // Memory that a launch is bound to. Of inputs and results only `bytes` from `offset` on, if `bytes` is not 0.
  struct Place {
    enum class Kind : uint8_t {
      input,  // storage of the caller, from where it is bound; in a loop's body a slot of the loop
      host,   // the host values
      own,    // storage made for each run
      arena   // `bytes` at `offset` of that block; in a loop's body of the loop's workspace
    };
    Kind kind = Kind::input;
    int32_t index = 0;
    uint64_t offset = 0, bytes = 0;
  };
  // A kernel as text, which is compiled where it is loaded, as what a compiler made of it for this driver, or as both:
  // then the binary is loaded.
  struct Kernel {
    std::optional<KernelSource> source;
    KernelBinary binary;  // its signature is always there; Kind::none: no code
    const KernelSignature& signature() const { return binary.signature; }
    bool is_compiled() const { return binary.kind != KernelBinary::Kind::none; }
  };
  // A row of a joined launch's table, or of a chain's, one an iteration.
  struct JoinedRow {
    std::vector<Place> places;
    std::vector<uint32_t> constants;
    int64_t groups = 0;
  };
  struct Launch {
    enum class Kind : uint8_t { kernel, joined, loop, to_host, from_host };
    Kind kind = Kind::kernel;
    int32_t index = -1;  // of the kernel, or of the loop
    std::array<uint32_t, 3> groups{1, 1, 1};
    std::vector<Place> places;        // by buffer of the kernel
    std::vector<uint32_t> constants;  // by constant of the kernel
    std::vector<JoinedRow> joined;
    uint32_t workers = 0;         // of a chain (core/run/chains.h): its work groups; 0: no chain
    uint64_t host_offset = 0;     // of a transfer
    int64_t loop_iterations = 0;  // of the work item with the most
    KernelFacts facts;
  };
  struct Loop {
    LoopPlaces places;
    std::vector<Launch> body;
    bool is_chain() const { return body.size() == 1 && body[0].workers > 0; }  // then all iterations are one launch
  };
  // After all launches: a value that could not be written straight where it is assigned.
  struct CopyBack {
    Place from;
    int32_t slot = -1;
  };
  struct Output {
    enum class Kind : uint8_t { input, own };
    Kind kind = Kind::own;
    int32_t index = 0;
    View view;
    // Of a view over an input as it was given: bytes of an element, by which the view moves to what is bound of it; 0:
    // the view counts from the storage's first byte.
    uint32_t element = 0;
  };

  std::string target;                 // name_of(Caps::target)
  uint64_t driver_hash = 0;           // Caps::image_hash()
  std::vector<uint64_t> input_bytes;  // of each storage that a run is given, from where it is bound: the least
  int32_t host_values = 0;
  std::vector<Kernel> kernels;  // each text once
  std::vector<Loop> loops;      // a loop's own come before it
  std::vector<Launch> launches;
  // Rising: before each of these launches a submission ends and another begins, a segment. Something that is no work of
  // the device may have to be done between two, such as a message of another process (Launcher::Between).
  std::vector<int32_t> cuts;
  std::vector<CopyBack> copies;  // of the last segment
  std::vector<Output> outputs;
  std::vector<int32_t> assigned;      // inputs that a run overwrites, once for each output that says so
  std::vector<uint64_t> own_bytes;    // made for each run
  std::vector<uint64_t> arena_bytes;  // of each block
  uint64_t host_bytes = 0;            // page-locked memory
  // At most one: what the first run computes and later ones are given as further inputs (core/simplify/precomputed.h).
  std::vector<GraphImage> once;
  std::vector<int32_t> once_slots;  // inputs that it reads

  // Of one run, copies and fills of loops included.
  size_t launch_count() const;
};

// What is wrong with an image, of whatever origin: an index or a count that does not fit; "" when nothing is. One
// without a fault can be launched on inputs of at least its `input_bytes`.
std::string image_fault(const GraphImage& image);

}  // namespace heddle
