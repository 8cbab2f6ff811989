// Tuned values of tunables: what every pick_<body>() asks last.
//
// Purpose: pick_<body>(caps, problem) chooses defaults by class of device and problem, then calls tuned(), which
// overlays what was measured on this device and driver for the nearest shape. Sources, the first that has a near entry
// wins: values forced by the calling thread (ScopedTuning), the user's file, what ships with the library (first for
// this driver, then for the class of device). The user's file is $HEDDLE_TUNING, else tuning.json in the cache folder
// (core/base/cache_dir.h); HEDDLE_TUNING set but empty: none. Invariants: a file that is missing is no fault; one that
// is corrupt or of another driver is one line on stderr, and the defaults hold. Plans are cached: tuning_state() is
// part of their key, so a plan made under other values is never found. Thread safety: all functions may be called from
// any thread; scopes belong to the thread that made them and end in reverse order.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/tiles/tuning_table.h"

namespace heddle {

// `fallback`, overlaid with the values for the nearest key of this device (same body and variant, sizes within a factor
// of two). `fallback` should name every tunable that it cares for: an entry replaces only what it names.
Bindings tuned(const Caps& caps, const TuningKey& key, const Bindings& fallback);

// While alive, tuned() of this thread overlays `values` for keys that fit: the same body, and the same variant and
// sizes unless those are empty. The values are taken as they are: for the tuner, and for tests that force a schedule.
class ScopedTuning {
 public:
  ScopedTuning(TuningKey key, Bindings values);
  ~ScopedTuning();
  ScopedTuning(const ScopedTuning&) = delete;
  ScopedTuning& operator=(const ScopedTuning&) = delete;
};

// While alive, tuned() of this thread knows no file: defaults only, but for what a ScopedTuning inside forces.
class TuningOff {
 public:
  TuningOff();
  ~TuningOff();
  TuningOff(const TuningOff&) = delete;
  TuningOff& operator=(const TuningOff&) = delete;
};

// While alive, remembers what this thread asked tuned() for; plans are made anew, so that each body of a graph asks.
struct TuningUse {
  TuningKey key;
  Bindings fallback;
  Bindings values;  // what tuned() answered
};
class TuningRecorder {
 public:
  TuningRecorder();
  ~TuningRecorder();
  TuningRecorder(const TuningRecorder&) = delete;
  TuningRecorder& operator=(const TuningRecorder&) = delete;
  // Each key once.
  const std::vector<TuningUse>& uses() const { return uses_; }
  void add(TuningUse use);

 private:
  std::vector<TuningUse> uses_;
};

// Changes whenever tuned() of this thread may answer differently: a hash of what is forced and of the user's file, the
// same in every process that has the same; 0 without either. While a TuningRecorder lives it is like no other.
uint64_t tuning_state();
// Whether this thread forces or records values, or the files were read again: then what is measured are the sizes at
// hand.
bool tuning_is_forced();

// The user's file; empty when there is none to be.
std::string tuning_path();
// Reads the files again (after `heddle tune` wrote one, or a test changed the environment).
void reload_tuning();

}  // namespace heddle
