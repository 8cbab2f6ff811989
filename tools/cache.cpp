// heddle cache list|clear|pack|unpack
#include <fmt/format.h>

#include <map>
#include <memory>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/cache_files.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/tiles/tuning.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

struct CacheOptions {
  bool json = false;
  bool entries = false;
  bool trust = false;
  std::string kind;
  std::string file;
};

std::string root() {
  std::string folder = cache_dir();
  if (folder.empty())
    throw ValueError(
        "[cache] there is no cache folder: HEDDLE_CACHE_DIR is empty, or neither it nor HOME is set "
        "(on Windows LOCALAPPDATA)");
  return folder;
}

double megabytes(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); }

struct Total {
  uint64_t entries = 0, bytes = 0, unusable = 0;
};

std::map<std::string, Total> by_kind(const std::vector<CacheEntry>& entries) {
  std::map<std::string, Total> totals;
  for (const CacheEntry& entry : entries) {
    Total& total = totals[entry.kind];
    ++total.entries;
    total.bytes += entry.bytes;
    total.unusable += !entry.current || !entry.intact;
  }
  return totals;
}

Json json_of(const std::vector<CacheEntry>& entries) {
  Json list = Json::array();
  for (const CacheEntry& e : entries) {
    list.push_back({{"kind", e.kind},
                    {"file", e.file},
                    {"label", e.label},
                    {"bytes", e.bytes},
                    {"idle_seconds", e.idle_seconds},
                    {"usable", e.current && e.intact}});
  }
  return list;
}

void print_totals(const std::vector<CacheEntry>& entries) {
  fmt::print("{:<18} {:>8} {:>10} {:>9}\n", "kind", "entries", "MB", "unusable");
  for (const auto& [kind, total] : by_kind(entries))
    fmt::print("{:<18} {:>8} {:>10.2f} {:>9}\n", kind, total.entries, megabytes(total.bytes), total.unusable);
}

void print_entries(const std::vector<CacheEntry>& entries) {
  for (const CacheEntry& e : entries) {
    fmt::print("{:<18} {} {:>10} bytes  idle {:>8.0f} s  {}{}\n", e.kind, e.file, e.bytes, e.idle_seconds, e.label,
               e.current && e.intact ? "" : "  (unusable)");
  }
}

void list(const CacheOptions& o) {
  const std::string folder = root();
  const std::vector<CacheEntry> entries = list_cache(folder, true);
  uint64_t bytes = 0;
  for (const CacheEntry& entry : entries) bytes += entry.bytes;
  std::error_code error;
  const std::string tuning = tuning_path();
  const bool tuned = !tuning.empty() && fs::exists(tuning, error);
  if (o.json) {
    print_json({{"folder", folder},
                {"bytes", bytes},
                {"limit_bytes", cache_limit_bytes()},
                {"tuning", tuned ? Json(tuning) : Json()},
                {"entries", json_of(entries)}});
    return;
  }
  fmt::print("{}: {} entries, {:.2f} of at most {:.0f} MB (HEDDLE_CACHE_MB)\n", folder, entries.size(),
             megabytes(bytes), megabytes(cache_limit_bytes()));
  if (!entries.empty()) print_totals(entries);
  if (o.entries) print_entries(entries);
  if (tuned) fmt::print("tuned schedules: {} (`heddle tune` writes it; `cache clear` leaves it)\n", tuning);
}

void clear(const CacheOptions& o) {
  const std::string folder = root();
  const CacheTotals removed = clear_cache(folder, o.kind);
  if (o.json)
    print_json({{"folder", folder}, {"removed", removed.files}, {"bytes", removed.bytes}});
  else
    fmt::print("{}: removed {} entries, {:.2f} MB\n", folder, removed.files, megabytes(removed.bytes));
}

void report(const char* what, const std::string& file, const std::vector<CacheEntry>& entries, bool json,
            uint64_t refused = 0) {
  uint64_t bytes = 0;
  for (const CacheEntry& entry : entries) bytes += entry.bytes;
  if (json) {
    print_json({{"file", file}, {"entries", json_of(entries)}, {"bytes", bytes}, {"refused", refused}});
    return;
  }
  fmt::print("{} {}: {} entries, {:.2f} MB\n", what, file, entries.size(), megabytes(bytes));
  if (!entries.empty()) print_totals(entries);
  if (refused > 0)
    fmt::print(
        "{} entries of machine code were left out; --trust-native-code takes them, for a pack whose maker you trust\n",
        refused);
}

void unpack(const CacheOptions& o) {
  const Unpacked unpacked = unpack_cache(o.file, root(), o.trust ? NativeCode::trusted : NativeCode::refused);
  report("unpacked from", o.file, unpacked.entries, o.json, unpacked.refused);
}

}  // namespace

void add_cache(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("cache", "Show, empty, pack and unpack the folder of compiled kernels");
  command->require_subcommand(1);
  command->footer(
      "The folder is HEDDLE_CACHE_DIR, else $XDG_CACHE_HOME/heddle, else ~/.cache/heddle, on Windows "
      "%LOCALAPPDATA%/heddle; HEDDLE_CACHE_MB limits it (1024).\n"
      "A pack serves machines with the same driver and version of heddle; others ignore what it holds. PoCL and Mesa "
      "keep caches of their own as well;\n"
      "with HEDDLE_OPENCL_BINARIES=1 PoCL's programs are kept here too, and packed.\n"
      "A pack is code that nobody vouches for: unpack only what comes from people you trust. Machine code in it is "
      "left out without --trust-native-code.\n"
      "Example:\n  heddle cache pack kernels.hdlpack && heddle cache unpack kernels.hdlpack");
  const auto options = std::make_shared<CacheOptions>();
  CLI::App* shown = command->add_subcommand("list", "Show what the folder holds");
  add_json_option(*shown, options->json);
  shown->add_flag("--entries", options->entries, "Every entry, not only the sums");
  shown->callback([options] { list(*options); });
  CLI::App* cleared = command->add_subcommand("clear", "Remove the entries");
  add_json_option(*cleared, options->json);
  cleared->add_option("--kind", options->kind, "Only those of one kind, e.g. spirv");
  cleared->callback([options] { clear(*options); });
  CLI::App* packed = command->add_subcommand("pack", "Write all usable entries into one file");
  add_json_option(*packed, options->json);
  packed->add_option("file", options->file, "File to write")->required();
  packed->callback(
      [options] { report("packed into", options->file, pack_cache(root(), options->file), options->json); });
  CLI::App* unpacked = command->add_subcommand("unpack", "Add a pack's entries to the folder");
  add_json_option(*unpacked, options->json);
  unpacked->add_option("file", options->file, "File that `heddle cache pack` wrote")->required();
  unpacked->callback([options] { unpack(*options); });
  unpacked->add_flag("--trust-native-code", options->trust,
                     "Take the entries of machine code too (of PoCL, CUDA and Vulkan's pipelines): the driver runs "
                     "them unchecked, and nothing says who made them");
}

}  // namespace heddle::tools
