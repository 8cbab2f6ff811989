// Pipeline: a model's layers in stages on the ranks of a group, and the parts of a batch that go through them.
//
//   Pipeline pipeline(world.all(), {.schedule = PipelineSchedule::zero_bubble, .microbatches = 8, .activations = {4,
//   64}},
//                     chunks, device);
//   const Pipeline::Step step = pipeline.run();   // the loss, and gradients of this rank's parameters
//
// Purpose: each rank computes its chunks of layers, forward and backward, in the order that the schedule gives it
// (distributed/forecast/pipeline_order.h), and sends what the neighbouring chunks need: activations to the next,
// gradients of them to the one before. Gradients are means over the microbatches, as for the whole batch where its loss
// is a mean and microbatches are equally large. A forward pass keeps what backward passes read of it, which the first
// microbatch finds out, so that nothing is computed twice; with `recompute` a stage keeps inputs and outputs of the
// microbatches that are under way, and a backward pass computes the rest again. zb1p asks for the gradient of the input
// first, sends it, and for those of the parameters later (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"); its
// first backward pass keeps what the second reads of that (autograd/residuals.h). Invariants: all ranks call run()
// together; results are the same bits each time. Errors: ValueError for chunks that do not fit the schedule;
// ShapeError, DTypeError for activations of another form; those of distributed/errors.h. Thread safety: none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/distributed/forecast/pipeline_order.h"
#include "heddle/distributed/group.h"

namespace heddle::train {

struct PipelineOptions {
  distributed::PipelineSchedule schedule = distributed::PipelineSchedule::one_forward_one_backward;
  int64_t microbatches = 1;
  Shape activations;  // of a microbatch, between chunks
  DType dtype = DType::f32;
  bool recompute = false;  // what lies between a chunk's input and output, in its backward pass
};

// Layers that follow each other. Chunk c of stage s is the one of place c * stages + s.
struct PipelineChunk {
  // Activations of the chunk before, for the first chunk of all an undefined tensor; gives activations, the last chunk
  // of all the microbatch's loss, of rank 0. What else a microbatch brings (tokens, labels) the function knows.
  Callable<Tensor(const Tensor& x, int64_t microbatch)> forward;
  std::vector<Tensor> parameters;
};

class Pipeline {
 public:
  // `device` outlives it. Every rank of the group is a stage, in the order of places.
  Pipeline(distributed::Group group, PipelineOptions options, std::vector<PipelineChunk> chunks, DeviceContext& device);
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  // An action, and when it was computed: seconds since the step began, without waiting for others.
  struct Span {
    distributed::Action action;
    double begin = 0, end = 0;
  };
  struct Step {
    double loss = 0;                             // the mean over microbatches, on all ranks
    std::vector<std::vector<Tensor>> gradients;  // by chunk and parameter
    int64_t most_live = 0;                       // microbatches of a chunk, added up, that were kept at once
    std::vector<Span> spans;
    double seconds = 0;  // of all of it
  };
  Step run();

 private:
  enum class Kind : int64_t { activations, gradient };
  // For which chunk of all, and of which microbatch.
  using Key = std::tuple<Kind, int64_t, int64_t>;
  // What a microbatch left in a chunk.
  struct Live {
    Tensor x, y, gradient;          // gradient: of y, once it is known and parameters still wait for it
    std::vector<NodePtr> recorded;  // by the forward pass, where it is not known yet what of it is kept
    std::vector<Tensor> kept;       // for what is computed later
    std::vector<NodePtr> owed;      // gradients of parameters that are recorded and not computed
  };
  // Which of the nodes that a chunk's forward pass records are kept, by their numbers.
  struct Kept {
    size_t recorded = 0;
    std::vector<size_t> numbers;
  };
  struct Sent {
    std::vector<std::byte> bytes;
    distributed::Ticket ticket;
  };

  int64_t stages() const { return group_.size(); }
  int64_t place(int64_t chunk) const { return chunk * stages() + group_.rank(); }
  int64_t last_place() const { return stages() * static_cast<int64_t>(chunks_.size()) - 1; }
  int rank_of(int64_t place) const { return static_cast<int>(place % stages()); }

  void act(const distributed::Action& action, Step& step);
  void forward(const distributed::Action& action, const Tensor& brought);
  void backward(const distributed::Action& action, const Tensor& brought, Step& step);
  void keep_forward(int64_t chunk, Live& live);
  void note_kept(int64_t chunk, Live& live, std::span<const NodePtr> gradients);
  std::vector<Tensor> recorded_gradients(int64_t chunk, Live& live);
  static Tensor owe(Live& live, std::vector<Tensor> gradients);
  void add_weight_gradients(int64_t chunk, const std::vector<Tensor>& more, Step& step);
  void send(Kind kind, int64_t to_place, int64_t microbatch, const Tensor& value);
  Tensor received(Kind kind, int64_t my_place, int64_t from_place, int64_t microbatch);
  void read_message(int from);

  distributed::Group group_;
  PipelineOptions options_;
  std::vector<PipelineChunk> chunks_;
  DeviceContext& device_;
  std::vector<distributed::Action> order_;
  std::map<std::pair<int64_t, int64_t>, Live> live_;  // by chunk and microbatch
  std::map<int64_t, Kept> kept_;                      // by chunk
  std::map<Key, std::vector<std::byte>> mailbox_;
  std::deque<Sent> sent_;
  double loss_ = 0;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace heddle::train
