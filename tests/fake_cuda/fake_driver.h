// What the files of the tests' libcuda share: its state, under one lock, and the work that waits in streams.
//
// Purpose: one entry point a few lines, by subject: memory, streams and events, graphs, modules and launches, the
// device. Thread safety: who calls a function that takes `Held` has the lock; state() is read and written under it.
#pragma once

#include <cuda.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/ptx/global_memory.h"

#undef cuEventElapsedTime
#undef cuGraphInstantiate

namespace heddle::fake_cuda {

using Work = std::function<CUresult()>;

struct Event {
  double seconds = 0;
  int recorded = 0, finished = 0;  // how often
  int node = -1;                   // recorded in a capture: the node of the graph that it follows
  bool pending() const { return finished < recorded; }
};
// A piece of work that starts when what it waits for is over.
struct Item {
  Work run;
  std::function<bool()> ready;  // empty: at once
};
constexpr int most_shared = 232448;  // bytes a kernel may opt in to, as on sm_90
// What the executor of PTX has against a kernel: a number that cuda.h leaves free within its enumeration, as no driver
// looks so closely. The device lives on.
constexpr auto ptx_fault = static_cast<CUresult>(1001);
struct Node {
  Work run;
  std::set<int> after;
};
struct Graph {
  std::vector<Node> nodes;
};
struct Stream {
  std::deque<Item> queue;
  bool capturing = false;
  std::set<int> last;  // capturing: what the next node comes after
};

struct State {
  std::recursive_mutex mutex;
  std::map<std::string, int> calls, live, failures;
  std::map<uintptr_t, size_t> memory;   // device allocations
  std::map<uintptr_t, size_t> host;     // page-locked ones
  heddle::ptx::GlobalMemory reachable;  // both, and variables of modules: what kernels may touch
  std::string fault;                    // what the executor reported last
  std::vector<Stream*> streams;         // alive, oldest first
  Graph* capture = nullptr;
  CUresult sticky = CUDA_SUCCESS;
  int asked = 0;                       // questions so far
  bool working = false;                // a thread runs a piece of work, without the lock
  std::condition_variable_any rested;  // it does no more
};

State& state();

using Held = std::unique_lock<std::recursive_mutex>;

// What every call does first: counts, fails on demand, and reports a sticky error or a missing context.
CUresult enter(const char* symbol, bool needs_context = true);
void make_context_current(bool current);

#define ENTER(symbol)       \
  Held held(state().mutex); \
  if (CUresult refused = enter(symbol); refused != CUDA_SUCCESS) return refused

Stream& stream_of(CUstream handle);
CUresult enqueue(CUstream handle, Work work);
// The next piece of work of the youngest stream that can go on: an order that nobody who forgot a dependency expects.
// Other threads may call the driver while it runs. False when none can.
bool run_one(Held& held, CUresult* result);
void wait_for_rest(Held& held);
// Runs work until it is not `busy` any more.
CUresult run_while(Held& held, const std::function<bool()>& busy);
// The code of what the executor of PTX has against a module or a launch; cuGetErrorString gives the text.
CUresult reported(const std::exception& error);

}  // namespace heddle::fake_cuda
