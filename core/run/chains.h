// Chains: small launches that follow each other become one launch of one work group.
//
// Purpose: where a launch costs more than a small kernel (Quirk::wakes_threads), kernels of one lane that stand
// in a row in an image become functions of one kernel, which calls them one after the other, each for all of its work
// groups. A chain is a joined launch of one row (core/lower/horizontal.h): its table holds the numbers of groups and
// the constants of all its links, so sizes are no part of the text. Invariants: one work item does what the launches
// did, in their order, so hazards, memory and bits are theirs; a chain lies within one segment of its image. Thread
// safety: chain_launches() is a pure function; a scope belongs to its thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/run/image.h"

namespace heddle {

// What is planned here will be run again and again, so that kernels which only this graph needs are worth compiling:
// compiled functions, replays, models that are written.
class RepeatedScope {
 public:
  RepeatedScope();
  ~RepeatedScope();
  RepeatedScope(const RepeatedScope&) = delete;
  RepeatedScope& operator=(const RepeatedScope&) = delete;
  static bool active();
};

// Whether graphs planned now get chains: HEDDLE_CHAINS=never or always, else where they are repeated.
bool chains_wanted(const DeviceContext& device);

struct ChainLimits {
  size_t links = 32;      // of one chain
  size_t texts = 12;      // different kernels in one: compilers take long with large ones
  double seconds = 8e-6;  // that one core may take longer than all of them, by guess: what a launch costs
};

struct Chain {
  std::string name;
  size_t first = 0, count = 0;  // launches that it was, of image.launches before
};

// Chains the launches of an image and of its loops' bodies; kernels that nobody launches any more go. Gives the chains
// outside of loops.
std::vector<Chain> chain_launches(GraphImage& image, const Caps& caps, const ChainLimits& limits = {});

}  // namespace heddle
