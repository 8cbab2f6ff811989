// TuningTable: measured values of tunables, by device and driver, as a readable file.
//
// Purpose: what `heddle tune` writes, what ships with the library (shaders/tuned.json) and what core/tiles/tuning.h
// looks up. The text is JSON:
//   {"heddle_tuning": 1, "devices": [{"name": "...", "driver": "...", "driver_hash": "0x12", "target": "opencl",
//   "class": "cpu", "vendor": "0x8086",
//     "entries": [{"body": "matmul", "variant": "nn f32 f32", "sizes": [1, 768, 384, 128], "tunables": {"MR": 6},
//     "seconds": 1e-4, "default_seconds": 1.2e-4}]}]}
// A section without driver_hash ("any") holds for every driver of that target, class and vendor. An entry without
// tunables says that the default won. Invariants: at most one section per identity and one entry per body, variant and
// sizes. Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

// What a value of tunables was measured for. `variant` names what changes the code (layouts, dtypes), `sizes` what does
// not.
struct TuningKey {
  std::string body;
  std::string variant;
  std::vector<int64_t> sizes;
  bool operator==(const TuningKey&) const = default;
  std::string str() const;  // "matmul nn f32 f32 1x768x384x128"
};

struct TuningEntry {
  TuningKey key;
  Bindings tunables;  // empty: the default was not beaten
  double seconds = 0;
  double default_seconds = 0;  // measured in the same run
};

struct TuningDevice {
  std::string name, driver;  // for readers
  uint64_t driver_hash = 0;  // 0: any driver of the same target, class and vendor
  Target target = Target::none;
  DeviceClass device_class = DeviceClass::cpu;
  uint32_t vendor_id = 0;
  std::vector<TuningEntry> entries;

  bool same_kind(const Caps& caps) const {
    return target == caps.target && device_class == caps.device_class && vendor_id == caps.vendor_id;
  }
  bool same_identity(const TuningDevice& other) const;
  // Replaces the entry of the same key, or adds one.
  void set(TuningEntry entry);
  // The entry of the same body and variant whose sizes are nearest: smallest sum of squared logarithms of ratios. Null
  // when none is near: every size must be within a factor of `max_factor`, because a shape further away is another
  // class.
  const TuningEntry* nearest(const TuningKey& key) const;
  static constexpr double max_factor = 2;
};

struct TuningTable {
  std::vector<TuningDevice> devices;

  // IoError "[tuning] FILE: ..." for text that is no such table.
  static TuningTable parse(std::string_view text, const std::string& origin);
  // IoError when unreadable.
  static TuningTable load(const std::string& path);
  std::string str() const;
  // The section for exactly this driver, made when missing.
  TuningDevice& section(const DeviceInfo& info);
  // Entries of `other` win where both have one.
  void merge(const TuningTable& other);
};

}  // namespace heddle
