// GeneratorScope: a generator in the place of the process's.
//
// Purpose: chance that is counted otherwise than in the order of draws: a step that computes parts of a batch gives
// each part numbers of its own, whichever process computes it. Within a scope default_generator() is the given one, and
// manual_seed() resets it, for what the thread records; what compile() recorded within it draws from that one ever
// after. Scopes nest. Invariants: the generator outlives the scope and what was recorded within it. Thread safety: a
// scope belongs to its thread.
#pragma once

namespace heddle {

struct Generator;  // core/functions/random/generator.h

class GeneratorScope {
 public:
  explicit GeneratorScope(Generator& generator);
  ~GeneratorScope();
  GeneratorScope(const GeneratorScope&) = delete;
  GeneratorScope& operator=(const GeneratorScope&) = delete;
  // This thread's innermost; null outside of any.
  static Generator* active();

 private:
  Generator* before_;
};

}  // namespace heddle
