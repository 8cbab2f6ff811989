// Chains: small launches that follow each other become one launch of one work group.
//
// Purpose: where a launch costs more than a small kernel (Quirk::wakes_threads), kernels of one lane that stand
// in a row in an image become functions of one kernel, which calls them one after the other, each for all of its work
// groups. A chain is a joined launch (core/lower/horizontal.h): its table holds the numbers of groups and the constants
// of all its links, so sizes are no part of the text. A loop whose body is one chain is one launch: its table has a row
// an iteration. Where links are long enough for several cores, so many work groups share out the groups of each link
// and meet before the next one (shaders/prelude.parts). Invariants: each group of a link is computed once, after all
// groups of the links before, so hazards, memory and bits are those of the launches; one worker alone gets through, so
// no launch waits for a thread that does not come; a chain lies within one segment of its image. Thread safety:
// chain_launches() is a pure function; a scope belongs to its thread.
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

// Whether graphs planned now get chains: HEDDLE_CHAINS=never or always, else where they are repeated; shared: there,
// and all chains may have several workers.
bool chains_wanted(const DeviceContext& device);

struct ChainLimits {
  size_t links = 32;        // of one chain
  size_t texts = 12;        // different kernels in one: compilers take long with large ones
  double seconds = 8e-6;    // that one core may take longer than all of them, by guess: what a launch costs
  double meeting = 4e-7;    // that workers take to meet after a link
  int64_t shared_rows = 4;  // a chain that runs so often in a row may have several workers; HEDDLE_CHAINS=shared: 1
  size_t few_texts = 8;     // a list of launches with so few different kernels: `texts` may all be of long ones
  size_t long_texts = 3;    // of one chain where kernels are more, of kernels for which one core takes longer than that
  size_t many_texts = 40;   // of lists of still more kernels, long ones are launches of their own: compiled sooner
  double longest = 1e-3;    // of a link of several workers, on one core: beside longer ones a launch costs little
  double longest_of_many = 1e-4;  // of loops of more kernels
  uint32_t workers = 16;          // of machines with more cores chains have one, and links that are short for one core
};

struct Chain {
  std::string name;
  size_t first = 0, count = 0;  // launches that it was, of image.launches before
};

// Whether chains of this device may have several workers.
bool shares_links(const Caps& caps, const ChainLimits& limits = {});

// Chains the launches of an image and of its loops' bodies; kernels that nobody launches any more go. Gives the chains
// outside of loops.
std::vector<Chain> chain_launches(GraphImage& image, const Caps& caps, const ChainLimits& limits = {});

}  // namespace heddle
