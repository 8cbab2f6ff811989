#include "heddle/core/tiles/tuning.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/of_this_thread.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/dialect/builtin_files.h"
#include "heddle/core/dialect/tunable_space.h"

namespace heddle {
namespace {

constexpr std::string_view shipped_file = "tuned.json";

void warn(const std::string& text) { print_error("heddle: {}\n", text); }

struct Tables {
  TuningTable user, shipped;
  std::string user_path;
};

TuningTable load_user(const std::string& path) {
  std::error_code code;
  if (path.empty() || !fs::exists(path, code)) return {};
  try {
    return TuningTable::load(path);
  } catch (const Error& error) {
    std::string text = error.what();
    std::replace(text.begin(), text.end(), '\n', ' ');
    warn(text + "; the file is left alone and defaults are used");
    return {};
  }
}

TuningTable load_shipped() {
  for (const BuiltinFile& file : builtin_files()) {
    if (file.name == shipped_file) return TuningTable::parse(file.text, std::string(file.name));
  }
  return {};
}

struct Process {
  std::mutex mutex;
  std::shared_ptr<const Tables> tables;
  std::set<std::string> warned;
  std::atomic<bool> loaded{false};
  std::atomic<uint64_t> user_hash{0};  // of what the user's file says, once it is loaded; 0: nothing
  std::atomic<bool> reloaded{false};
};
Process& process() {
  static Process instance;
  return instance;
}

std::shared_ptr<const Tables> tables() {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  if (!p.tables) {
    auto fresh = std::make_shared<Tables>();
    fresh->user_path = tuning_path();
    fresh->user = load_user(fresh->user_path);
    fresh->shipped = load_shipped();
    p.user_hash = fresh->user.devices.empty() ? 0 : hash_string(fresh->user.str());
    p.loaded = true;
    p.tables = std::move(fresh);
  }
  return p.tables;
}

void warn_once(const std::string& text) {
  Process& p = process();
  {
    const std::lock_guard lock(p.mutex);
    if (!p.warned.insert(text).second) return;
  }
  warn(text);
}

struct Forced {
  bool off = false;  // from here on, no files
  TuningKey key;
  Bindings values;
};
struct ThreadState {
  std::vector<Forced> forced;
  std::vector<TuningRecorder*> recorders;
  uint64_t recorded = 0;  // number of the newest recorder
  uint64_t state = 0;     // a hash of `forced`
};
ThreadState& thread_state() { return of_this_thread<ThreadState>(); }

void update_state() {
  ThreadState& thread = thread_state();
  thread.state = 0;
  if (thread.forced.empty()) return;
  std::string text;
  for (const Forced& f : thread.forced) {
    text += f.off ? "off" : f.key.str();
    for (const auto& [name, value] : f.values) text += fmt::format(" {}={}", name, value);
    text += '\n';
  }
  thread.state = hash_string(text);
}

void push(Forced forced) {
  thread_state().forced.push_back(std::move(forced));
  update_state();
}
void pop() {
  thread_state().forced.pop_back();
  update_state();
}

// The section for this driver; a section of the same kind of device and another driver is worth a line.
const TuningDevice* user_section(const Tables& t, const Caps& caps) {
  const TuningDevice* foreign = nullptr;
  for (const TuningDevice& device : t.user.devices) {
    if (!device.same_kind(caps)) continue;
    if (device.driver_hash == caps.driver_hash) return &device;
    foreign = &device;
  }
  if (foreign != nullptr && foreign->driver_hash == 0) return foreign;
  if (foreign != nullptr) {
    warn_once(
        fmt::format("[tuning] {}: measured with another driver ({}, {}); defaults are used until `heddle tune` has run "
                    "with this one",
                    t.user_path, foreign->name, foreign->driver));
  }
  return nullptr;
}

const TuningEntry* find_entry(const Tables& t, const Caps& caps, const TuningKey& key) {
  if (const TuningDevice* device = user_section(t, caps)) {
    if (const TuningEntry* entry = device->nearest(key)) return entry;
  }
  const TuningEntry* of_class = nullptr;
  for (const TuningDevice& device : t.shipped.devices) {
    if (!device.same_kind(caps) || (device.driver_hash != 0 && device.driver_hash != caps.driver_hash)) continue;
    const TuningEntry* entry = device.nearest(key);
    if (entry != nullptr && device.driver_hash != 0) return entry;
    if (entry != nullptr) of_class = entry;
  }
  return of_class;
}

void overlay(Bindings& values, const Bindings& more) {
  for (const auto& [name, value] : more) values[name] = value;
}

Bindings answer(const Caps& caps, const TuningKey& key, const Bindings& fallback) {
  Bindings values = fallback;
  const std::vector<Forced>& forced = thread_state().forced;
  const bool off = std::any_of(forced.begin(), forced.end(), [](const Forced& f) { return f.off; });
  if (!off) {
    const auto known = tables();
    if (const TuningEntry* entry = find_entry(*known, caps, key)) {
      Bindings with = fallback;
      overlay(with, entry->tunables);
      const std::string refusal = has_tunable_space(key.body) ? tunable_space(key.body).refusal(key.body, with) : "";
      if (refusal.empty())
        values = std::move(with);
      else
        warn_once(fmt::format("[tuning] an entry for {} does not fit this version: {}; defaults are used",
                              entry->key.str(), refusal));
    }
  }
  for (const Forced& f : forced) {
    if (f.off || f.key.body != key.body) continue;
    if ((f.key.variant.empty() || f.key.variant == key.variant) && (f.key.sizes.empty() || f.key.sizes == key.sizes))
      overlay(values, f.values);
  }
  return values;
}

}  // namespace

Bindings tuned(const Caps& caps, const TuningKey& key, const Bindings& fallback) {
  Bindings values = answer(caps, key, fallback);
  for (TuningRecorder* recorder : thread_state().recorders) recorder->add({key, fallback, values});
  return values;
}

ScopedTuning::ScopedTuning(TuningKey key, Bindings values) { push({false, std::move(key), std::move(values)}); }
ScopedTuning::~ScopedTuning() { pop(); }
TuningOff::TuningOff() { push({true, {}, {}}); }
TuningOff::~TuningOff() { pop(); }

TuningRecorder::TuningRecorder() {
  static std::atomic<uint64_t> count{0};
  thread_state().recorders.push_back(this);
  thread_state().recorded = ++count;
}
TuningRecorder::~TuningRecorder() { std::erase(thread_state().recorders, this); }

void TuningRecorder::add(TuningUse use) {
  if (std::none_of(uses_.begin(), uses_.end(), [&](const TuningUse& u) { return u.key == use.key; }))
    uses_.push_back(std::move(use));
}

uint64_t tuning_state() {
  if (!process().loaded) tables();
  const ThreadState& thread = thread_state();
  const uint64_t recorder = thread.recorders.empty() ? 0 : thread.recorded;
  const uint64_t user = process().user_hash;
  return (recorder | thread.state | user) == 0 ? 0 : hash_combine(hash_combine(user, thread.state), recorder);
}

bool tuning_is_forced() {
  const ThreadState& thread = thread_state();
  return !thread.recorders.empty() || !thread.forced.empty() || process().reloaded;
}

std::string tuning_path() {
  if (std::optional<std::string> asked = os::variable("HEDDLE_TUNING")) return *std::move(asked);
  const std::string folder = cache_dir();
  return folder.empty() ? "" : folder + "/tuning.json";
}

void reload_tuning() {
  Process& p = process();
  const std::lock_guard lock(p.mutex);
  p.tables.reset();
  p.warned.clear();
  p.loaded = false;
  p.reloaded = true;
}

}  // namespace heddle
