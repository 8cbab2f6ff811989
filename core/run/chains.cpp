#include "heddle/core/run/chains.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "heddle/core/base/print_error.h"
#include "heddle/core/contract/quirks.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/run/replay.h"

namespace heddle {
namespace {

using Launch = GraphImage::Launch;
using Place = GraphImage::Place;

thread_local int scopes = 0;

enum class Setting : uint8_t { never, repeated, shared, always };

Setting setting() {
  static const Setting chosen = [] {
    const char* given = std::getenv("HEDDLE_CHAINS");
    const std::string_view value = given ? given : "";
    if (value == "never") return Setting::never;
    if (value == "always") return Setting::always;
    if (value == "shared") return Setting::shared;
    if (!value.empty() && value != "automatic")
      print_error("heddle: HEDDLE_CHAINS is '{}', expected automatic, never, shared or always: automatic\n", value);
    return Setting::repeated;
  }();
  return chosen;
}

// On one core, of values in its cache: 40 GB/s, 40 GFLOP/s.
double guessed_seconds(const KernelFacts& facts) { return std::max(facts.bytes() / 4e10, facts.flops / 4e10); }

// That one core takes longer for a launch than all of them.
double lost_seconds(const Launch& launch, const Caps& caps) {
  const uint64_t groups = uint64_t{launch.groups[0]} * launch.groups[1] * launch.groups[2];
  const double cores = static_cast<double>(std::min<uint64_t>(groups, caps.compute_units));
  return guessed_seconds(launch.facts) * (1 - 1 / cores);
}

// How chains of one list of launches run.
struct Manner {
  int64_t rows = 1;       // how often in a row
  bool shared = false;    // several workers may
  double longest = 0;     // of their links, seconds on one core by guess
  size_t long_texts = 0;  // of one chain, of kernels that one core takes longer for
};

// One chain while it grows.
class ChainBuilder {
 public:
  ChainBuilder(const Caps& caps, const ChainLimits& limits, Manner manner)
      : caps_(caps), limits_(limits), manner_(manner) {}

  // False, and nothing changes, when the chain is full or the kernel does not go with the others.
  bool add(const Launch& launch, const KernelSource& source) {
    const std::string width = part_vector_width(source);
    const double lost = lost_seconds(launch, caps_);
    const bool fresh = !parts_.contains(source.hash()), lasts = lost > limits_.seconds;
    const auto more = std::count_if(launch.places.begin(), launch.places.end(),
                                    [&](const Place& place) { return !buffer_of_.contains(key(place)); });
    if ((!width_.empty() && !width.empty() && width != width_) || links_.size() == limits_.links ||
        (fresh && (parts_.size() == limits_.texts || (lasts && long_texts_ == manner_.long_texts))) ||
        row_.places.size() + static_cast<size_t>(more) + 2 > caps_.max_bindings)
      return false;
    if (!width.empty()) width_ = width;
    if (fresh) {
      parts_.emplace(source.hash(), fmt::format("hk_part{}", parts_.size()));
      texts_.push_back(source);
      long_texts_ += lasts ? 1 : 0;
    }
    links_.push_back({parts_.at(source.hash()), source.name, {}, {}});
    lost_seconds_ += lost;
    add_numbers(launch, source, links_.back());
    for (size_t b = 0; b < launch.places.size(); ++b) add_place(launch.places[b], source.buffers[b], links_.back());
    add_facts(launch.facts);
    loop_iterations_ += launch.loop_iterations;
    return true;
  }

  size_t links() const { return links_.size(); }

  // More than one where sharing out the groups gains more than meeting after each link costs.
  uint32_t workers() const {
    const double meeting = limits_.meeting * static_cast<double>(links_.size());
    const bool pays = (lost_seconds_ - meeting) * static_cast<double>(manner_.rows) > limits_.seconds;
    return pays && manner_.shared ? caps_.compute_units : 1;
  }

  KernelSource source() const {
    const bool shared = workers() > 1;
    const PartGroups groups = shared ? PartGroups::taken : PartGroups::all;
    KernelSource made;
    made.name = fmt::format("chain{}_{}", links_.size(), links_.front().kernel);
    made.buffers = buffers_;
    for (BufferParam& buffer : made.buffers) buffer.scattered = buffer.scattered || manner_.rows > 1;
    if (shared) made.buffers.push_back({"t_shared", DType::i32, Access::read_write});
    made.buffers.push_back({"t_table", DType::i32, Access::read});
    made.constants = {{"t_total", ConstParam::Type::i32}};
    if (!width_.empty()) made.defines.emplace_back("VW", width_);
    made.helpers = part_prologue(groups);
    for (const KernelSource& text : texts_) made.helpers += print_part(text, parts_.at(text.hash()), groups);
    made.origin = "chain";
    made.body = "for (int t_row = 0; t_row < t_total; ++t_row) {\nconst int t_seg = LOAD(t_table, t_row);\n";
    for (size_t l = 0; l < links_.size(); ++l) made.body += call_of(l, shared);
    made.body += "}\n";
    if (shared) made.body += "hkw_end((hkw_words)hk_t_shared);\n";
    return made;
  }

  // `kernel`: of the image.
  Launch launch(int32_t kernel) const {
    Launch made;
    made.kind = Launch::Kind::joined;
    made.index = kernel;
    made.joined.push_back({row_.places, row_.constants, 1});
    made.workers = workers();
    made.loop_iterations = loop_iterations_;
    made.facts = facts_;
    return made;
  }

 private:
  struct Link {
    std::string part, kernel;
    std::vector<std::pair<size_t, ConstParam::Type>> numbers;  // which of the row's
    std::vector<size_t> buffers;
  };
  using Key = std::tuple<Place::Kind, int32_t, uint64_t, uint64_t>;
  static Key key(const Place& place) { return {place.kind, place.index, place.offset, place.bytes}; }

  // The table: where each row starts; then the rows: a first work group, a base for each buffer, the numbers.
  std::string call_of(size_t l, bool shared) const {
    const Link& link = links_[l];
    std::vector<std::string> arguments;
    if (shared) arguments = {"(hkw_words)hk_t_shared", fmt::format("CAST(uint, t_row) * {}u + {}u", links_.size(), l)};
    for (size_t n = 0; n < link.numbers.size(); ++n) {
      const std::string value = fmt::format("LOAD(t_table, t_seg + {})", 1 + buffers_.size() + link.numbers[n].first);
      arguments.push_back(link.numbers[n].second == ConstParam::Type::i32   ? value
                          : link.numbers[n].second == ConstParam::Type::u32 ? fmt::format("CAST(uint, {})", value)
                                                                            : fmt::format("AS_FLOAT({})", value));
      if (n != 2) continue;  // buffers stand behind the numbers of groups
      for (const size_t b : link.buffers)
        arguments.push_back(
            fmt::format("(__global void*)(hk_{} + LOAD(t_table, t_seg + {}))", buffers_[b].name, 1 + b));
    }
    return fmt::format("{}({});\n", link.part, fmt::join(arguments, ", "));
  }

  void add_numbers(const Launch& launch, const KernelSource& source, Link& link) {
    const auto add = [&](uint32_t number, ConstParam::Type type) {
      link.numbers.emplace_back(row_.constants.size(), type);
      row_.constants.push_back(number);
    };
    for (const uint32_t groups : launch.groups) add(groups, ConstParam::Type::u32);
    for (size_t c = 0; c < launch.constants.size(); ++c) add(launch.constants[c], source.constants[c].type);
  }

  // Links share a buffer where they are bound to the same memory.
  void add_place(const Place& place, const BufferParam& as, Link& link) {
    const auto [at, fresh] = buffer_of_.try_emplace(key(place), buffers_.size());
    link.buffers.push_back(at->second);
    if (fresh) {
      buffers_.push_back({fmt::format("b{}", buffers_.size()), as.dtype, as.access, true, as.scattered});
      row_.places.push_back(place);
      return;
    }
    BufferParam& known = buffers_[at->second];
    if (known.access != as.access) known.access = Access::read_write;
    known.scattered = known.scattered && as.scattered;
  }

  void add_facts(const KernelFacts& more) {
    facts_.ops += (facts_.ops.empty() ? "" : ", ") + more.ops;
    facts_.read_bytes += more.read_bytes;
    facts_.written_bytes += more.written_bytes;
    facts_.flops += more.flops;
    for (const std::string& line : more.lines) {
      if (std::find(facts_.lines.begin(), facts_.lines.end(), line) == facts_.lines.end()) facts_.lines.push_back(line);
    }
  }

  const Caps& caps_;
  const ChainLimits& limits_;
  Manner manner_;
  double lost_seconds_ = 0;
  size_t long_texts_ = 0;
  std::string width_;
  std::map<uint64_t, std::string> parts_;  // by hash, the name of the function
  std::vector<KernelSource> texts_;        // in the order of their functions
  std::map<Key, size_t> buffer_of_;
  std::vector<BufferParam> buffers_;
  GraphImage::JoinedRow row_;
  std::vector<Link> links_;
  KernelFacts facts_;
  int64_t loop_iterations_ = 0;
};

class ImageChainer {
 public:
  ImageChainer(GraphImage& image, const Caps& caps, const ChainLimits& limits)
      : image_(image), caps_(caps), limits_(limits) {
    for (const GraphImage::Kernel& kernel : image.kernels)
      fits_.push_back(kernel.source && !kernel.is_compiled() && part_refusal(*kernel.source).empty());
  }

  std::vector<Chain> run() {
    std::vector<int32_t> none;
    for (GraphImage::Loop& loop : image_.loops) chain(loop.body, none, manner_of(loop.body, loop.places.length));
    std::vector<Chain> chains = chain(image_.launches, image_.cuts, manner_of(image_.launches, 1));
    drop_unused();
    return chains;
  }

 private:
  // Kernels that last are long texts, which compilers take longer for together than one by one: where there are many, a
  // chain has few of them, and a loop's, one of very many or a training step's, which assigns what it computes, none.
  Manner manner_of(const std::vector<Launch>& launches, int64_t rows) const {
    std::set<int32_t> texts;
    for (const Launch& launch : launches) texts.insert(launch.kind == Launch::Kind::kernel ? launch.index : -1);
    const bool few = texts.size() <= limits_.few_texts;
    const bool list = rows == 1 && image_.assigned.empty() && texts.size() <= limits_.many_texts;
    const bool shared = few || list || rows >= limits_.shared_rows || setting() == Setting::shared;
    return {rows, shared && shares_links(caps_, limits_), few || list ? limits_.longest : limits_.longest_of_many,
            list && !few ? limits_.long_texts : limits_.texts};
  }

  bool may_chain(const Launch& launch, const Manner& manner) const {
    if (launch.kind != Launch::Kind::kernel || !fits_[static_cast<size_t>(launch.index)]) return false;
    return lost_seconds(launch, caps_) <= limits_.seconds ||
           (manner.shared && guessed_seconds(launch.facts) <= manner.longest);
  }

  // `cuts` are moved along.
  std::vector<Chain> chain(std::vector<Launch>& launches, std::vector<int32_t>& cuts, const Manner& manner) {
    std::vector<Launch> kept;
    std::vector<Chain> chains;
    std::optional<ChainBuilder> growing;
    size_t first = 0;
    const auto close = [&] {
      // One kernel that is all of a loop is a chain of its iterations.
      if (growing && (growing->links() > 1 || (manner.rows > 1 && launches.size() == 1))) {
        KernelSource source = growing->source();
        chains.push_back({source.name, first, growing->links()});
        Launch launch = growing->launch(kernel_of(source));
        launch.facts.name = source.name;
        launch.facts.source = source.hash();
        kept.push_back(std::move(launch));
      } else if (growing) {
        kept.push_back(std::move(launches[first]));
      }
      growing.reset();
    };
    auto cut = cuts.begin();
    for (size_t l = 0; l < launches.size(); ++l) {
      if (cut != cuts.end() && static_cast<size_t>(*cut) == l) {
        close();
        *cut++ = static_cast<int32_t>(kept.size());
      }
      if (!may_chain(launches[l], manner)) {
        close();
        kept.push_back(std::move(launches[l]));
        continue;
      }
      const KernelSource source = *image_.kernels[static_cast<size_t>(launches[l].index)].source;
      if (growing && growing->add(launches[l], source)) continue;
      close();
      first = l;
      if (!growing.emplace(caps_, limits_, manner).add(launches[l], source)) {
        growing.reset();
        kept.push_back(std::move(launches[l]));
      }
    }
    close();
    launches = std::move(kept);
    return chains;
  }

  int32_t kernel_of(const KernelSource& source) {
    const auto [at, fresh] = made_.try_emplace(source.hash(), static_cast<int32_t>(image_.kernels.size()));
    if (fresh) {
      image_.kernels.push_back({source, {.signature = signature_of(source)}});
      fits_.push_back(false);
    }
    return at->second;
  }

  // Calls visit(launch) for all that launch a kernel.
  template <class F>
  void for_each_launch(const F& visit) {
    const auto walk = [&](std::vector<Launch>& launches) {
      for (Launch& launch : launches) {
        if (launch.kind == Launch::Kind::kernel || launch.kind == Launch::Kind::joined) visit(launch);
      }
    };
    walk(image_.launches);
    for (GraphImage::Loop& loop : image_.loops) walk(loop.body);
  }

  void drop_unused() {
    std::vector<int32_t> now(image_.kernels.size(), -1);
    for_each_launch([&](const Launch& launch) { now[static_cast<size_t>(launch.index)] = 0; });
    std::vector<GraphImage::Kernel> kept;
    for (size_t k = 0; k < now.size(); ++k) {
      if (now[k] < 0) continue;
      now[k] = static_cast<int32_t>(kept.size());
      kept.push_back(std::move(image_.kernels[k]));
    }
    image_.kernels = std::move(kept);
    for_each_launch([&](Launch& launch) { launch.index = now[static_cast<size_t>(launch.index)]; });
  }

  GraphImage& image_;
  const Caps& caps_;
  const ChainLimits& limits_;
  std::vector<bool> fits_;  // by kernel
  std::map<uint64_t, int32_t> made_;
};

}  // namespace

RepeatedScope::RepeatedScope() { ++scopes; }
RepeatedScope::~RepeatedScope() { --scopes; }
bool RepeatedScope::active() { return scopes > 0 || Replay::capturing(); }

bool chains_wanted(const DeviceContext& device) {
  const bool wanted = setting() == Setting::always || (setting() != Setting::never && RepeatedScope::active());
  return wanted && Quirks(device.info()).has(Quirk::wakes_threads);
}

bool shares_links(const Caps& caps, const ChainLimits& limits) {
  return caps.compute_units > 1 && caps.compute_units <= limits.workers;
}

std::vector<Chain> chain_launches(GraphImage& image, const Caps& caps, const ChainLimits& limits) {
  if (caps.target != Target::opencl) return {};
  return ImageChainer(image, caps, limits).run();
}

}  // namespace heddle
