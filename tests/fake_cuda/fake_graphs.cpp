// What is captured from streams, and launched as one.
#include <algorithm>

#include "tests/fake_cuda/fake_driver.h"

using namespace heddle::fake_cuda;

namespace {

// All nodes, of those that may run always the latest.
CUresult run_graph(const std::vector<Node>& nodes) {
  std::vector<bool> done(nodes.size(), false);
  for (size_t count = 0; count < nodes.size(); ++count) {
    size_t next = nodes.size();
    for (size_t i = nodes.size(); i-- > 0 && next == nodes.size();) {
      const auto finished = [&](int before) { return done[static_cast<size_t>(before)]; };
      if (!done[i] && std::all_of(nodes[i].after.begin(), nodes[i].after.end(), finished)) next = i;
    }
    if (CUresult result = nodes[next].run(); result != CUDA_SUCCESS) return result;
    done[next] = true;
  }
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode) {
  ENTER("cuStreamBeginCapture");
  state().capture = new Graph();
  stream_of(stream).capturing = true;
  stream_of(stream).last.clear();
  return CUDA_SUCCESS;
}
CUresult cuStreamEndCapture(CUstream handle, CUgraph* graph) {
  const Held whole(state().mutex);
  const Graph made = *state().capture;
  delete state().capture;
  state().capture = nullptr;
  *graph = nullptr;
  // Every node must come before where the capturing stream ends.
  std::set<int> before = stream_of(handle).last;
  for (size_t i = made.nodes.size(); i-- > 0;) {
    if (before.contains(static_cast<int>(i))) before.insert(made.nodes[i].after.begin(), made.nodes[i].after.end());
  }
  for (Stream* stream : state().streams) stream->capturing = false;
  ENTER("cuStreamEndCapture");
  if (before.size() != made.nodes.size()) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = reinterpret_cast<CUgraph>(new Graph(made));
  ++state().live["graph"];
  return CUDA_SUCCESS;
}
CUresult cuGraphInstantiateWithFlags(CUgraphExec* exec, CUgraph graph, unsigned long long) {
  ENTER("cuGraphInstantiate");
  *exec = reinterpret_cast<CUgraphExec>(new Graph(*reinterpret_cast<Graph*>(graph)));
  ++state().live["exec"];
  return CUDA_SUCCESS;
}
CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream) {
  ENTER("cuGraphLaunch");
  return enqueue(stream, [nodes = reinterpret_cast<Graph*>(exec)->nodes] { return run_graph(nodes); });
}
CUresult cuGraphDestroy(CUgraph graph) {
  const Held held(state().mutex);
  delete reinterpret_cast<Graph*>(graph);
  --state().live["graph"];
  return CUDA_SUCCESS;
}
CUresult cuGraphExecDestroy(CUgraphExec exec) {
  const Held held(state().mutex);
  delete reinterpret_cast<Graph*>(exec);
  --state().live["exec"];
  return CUDA_SUCCESS;
}

}  // extern "C"
