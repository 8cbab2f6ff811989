#include "heddle/core/memory/kernel_sequence.h"

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/ir/kernel_cost.h"

namespace heddle {
namespace {

constexpr int64_t alignment = 256;

void once(std::vector<int>& list, int value) {
  if (std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
}

}  // namespace

SequenceFacts::SequenceFacts(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels,
                             const Caps& caps)
    : units_of(kernels.size()) {
  std::set<int> outlives, copied;
  for (const OutputPlan& output : scheduled.outputs) (output.copy_back ? copied : outlives).insert(output.base);
  const std::map<int, double> operations = stored_operations(scheduled);
  const auto bytes_of = [&](int vertex) {
    const IrNode& node = scheduled.graph.nodes[static_cast<size_t>(vertex)];
    return std::max<int64_t>(1, node.shape.numel()) * static_cast<int64_t>(size_of(node.dtype));
  };
  const auto base = [&](int vertex) {
    const auto [at, fresh] = base_of.try_emplace(vertex, static_cast<int>(bases.size()));
    if (fresh) bases.push_back({vertex, round_up(bytes_of(vertex), alignment), -1, copied.contains(vertex)});
    return at->second;
  };
  for (size_t k = 0; k < kernels.size(); ++k) {
    const LoweredKernel& kernel = kernels[k];
    const int joined = static_cast<int>(kernel.joined.size());
    for (int s = joined == 0 ? -1 : 0; s < std::max(joined, 0); ++s) {
      Unit unit{k, s, {}, {}, {}, 0, !kernel.is_transfer() && !kernel.loop};
      const std::vector<SlotRef>& slots = s < 0 ? kernel.bindings : kernel.joined[static_cast<size_t>(s)].bindings;
      double bytes = 0, computed = 0;
      for (size_t b = 0; b < slots.size(); ++b) {
        const Access access = kernel.source.buffers[b].access;
        const bool temporary = slots[b].kind == SlotRef::Kind::vertex && !outlives.contains(slots[b].index);
        if (slots[b].kind == SlotRef::Kind::vertex) bytes += static_cast<double>(bytes_of(slots[b].index));
        if (slots[b].kind == SlotRef::Kind::input) {
          if (access != Access::write) once(unit.inputs, slots[b].index);
          if (access != Access::read) writers[slots[b].index].push_back(k);
        }
        if (access != Access::read && (access == Access::read_write || !temporary)) unit.repeatable = false;
        if (temporary && access != Access::write) once(unit.reads, base(slots[b].index));
        if (temporary && access != Access::read) once(unit.writes, base(slots[b].index));
        if (const auto found = operations.find(slots[b].index);
            access != Access::read && slots[b].kind == SlotRef::Kind::vertex && found != operations.end()) {
          computed = std::max(computed, found->second);
        }
      }
      unit.cost = launch_cost(bytes, computed, caps.device_class);
      units_of[k].push_back(static_cast<int>(units.size()));
      units.push_back(std::move(unit));
      if (s < 0) break;
    }
  }
  std::vector<int> makers(bases.size(), 0);
  for (const Unit& unit : units) {
    for (int b : unit.writes) ++makers[static_cast<size_t>(b)];
  }
  for (size_t u = 0; u < units.size(); ++u) {
    Unit& unit = units[u];
    // A join's memory is written by several; each makes a part.
    unit.repeatable = unit.repeatable && std::all_of(unit.writes.begin(), unit.writes.end(),
                                                     [&](int b) { return makers[static_cast<size_t>(b)] == 1; });
    if (!unit.repeatable) continue;
    for (int b : unit.writes) bases[static_cast<size_t>(b)].unit = static_cast<int>(u);
  }
}

KernelSequence::KernelSequence(const SequenceFacts& facts) {
  for (size_t b = 0; b < facts.bases.size(); ++b) base.push_back(static_cast<int>(b));
  for (size_t k = 0; k < facts.units_of.size(); ++k) {
    Launch launch{static_cast<int>(k), -1, {}, {}};
    for (int u : facts.units_of[k]) {
      for (int b : facts.units[static_cast<size_t>(u)].reads) once(launch.reads, b);
      for (int b : facts.units[static_cast<size_t>(u)].writes) once(launch.writes, b);
    }
    launches.push_back(std::move(launch));
  }
}

int KernelSequence::Life::last(int version, const SequenceFacts& facts, const KernelSequence& sequence) const {
  const int b = sequence.base[static_cast<size_t>(version)];
  if (version == b && facts.bases[static_cast<size_t>(b)].at_end) return static_cast<int>(alive.size()) - 1;
  return touches[static_cast<size_t>(version)].empty() ? -1 : touches[static_cast<size_t>(version)].back();
}

KernelSequence::Life KernelSequence::life(const SequenceFacts& facts) const {
  Life life;
  life.touches.resize(base.size());
  for (size_t i = 0; i < launches.size(); ++i) {
    const auto touch = [&](int version) {
      std::vector<int>& list = life.touches[static_cast<size_t>(version)];
      if (list.empty() || list.back() != static_cast<int>(i)) list.push_back(static_cast<int>(i));
    };
    for (int v : launches[i].reads) touch(v);
    for (int v : launches[i].writes) touch(v);
  }
  life.alive.assign(launches.size() + 1, 0);
  for (size_t v = 0; v < base.size(); ++v) {
    if (life.touches[v].empty()) continue;
    const int64_t bytes = facts.bases[static_cast<size_t>(base[v])].bytes;
    const int end = life.last(static_cast<int>(v), facts, *this);
    life.alive[static_cast<size_t>(life.touches[v].front())] += bytes;
    if (end + 1 < static_cast<int>(life.alive.size())) life.alive[static_cast<size_t>(end) + 1] -= bytes;
  }
  int64_t sum = 0;
  for (size_t i = 0; i < life.alive.size(); ++i) {
    life.alive[i] = sum += life.alive[i];
    if (sum > life.peak) {
      life.peak = sum;
      life.fullest = static_cast<int>(i);
      life.count = 0;
    }
    life.count += sum == life.peak ? 1 : 0;
  }
  return life;
}

std::map<int, int> KernelSequence::repeat(const SequenceFacts& facts, const std::vector<int>& units, int at,
                                          const std::map<int, int>& sources) {
  std::map<int, int> made;
  std::vector<Launch> added;
  for (int u : units) {
    const SequenceFacts::Unit& unit = facts.units[static_cast<size_t>(u)];
    Launch launch{-1, u, {}, {}};
    for (int b : unit.reads) {
      const auto here = made.find(b);
      launch.reads.push_back(here != made.end() ? here->second : sources.at(b));
    }
    for (int b : unit.writes) {
      made[b] = static_cast<int>(base.size());
      launch.writes.push_back(made[b]);
      base.push_back(b);
    }
    added.push_back(std::move(launch));
  }
  launches.insert(launches.begin() + at, std::make_move_iterator(added.begin()), std::make_move_iterator(added.end()));
  return made;
}

void KernelSequence::replace(int before, int now, int at) {
  for (size_t i = static_cast<size_t>(at); i < launches.size(); ++i)
    std::replace(launches[i].reads.begin(), launches[i].reads.end(), before, now);
}

void KernelSequence::drop_unread() {
  for (bool dropped = true; dropped;) {
    std::vector<bool> read(base.size(), false);
    for (const Launch& launch : launches) {
      for (int v : launch.reads) read[static_cast<size_t>(v)] = true;
    }
    const size_t before = launches.size();
    std::erase_if(launches, [&](const Launch& launch) {
      return launch.repeated() && std::none_of(launch.writes.begin(), launch.writes.end(),
                                               [&](int v) { return read[static_cast<size_t>(v)]; });
    });
    dropped = launches.size() != before;
  }
}

std::vector<LoweredKernel> rebind(const KernelSequence& sequence, const SequenceFacts& facts,
                                  const std::vector<LoweredKernel>& kernels, Graph& graph) {
  std::vector<int> vertices(sequence.base.size(), -1);  // by version, made when it is met first
  const auto vertex = [&](int version) {
    int& known = vertices[static_cast<size_t>(version)];
    if (known >= 0) return known;
    const int b = sequence.base[static_cast<size_t>(version)];
    known = facts.bases[static_cast<size_t>(b)].vertex;
    if (version != b) known = graph.add(IrNode(graph.nodes[static_cast<size_t>(known)]));
    return known;
  };
  std::vector<LoweredKernel> list;
  for (const Launch& launch : sequence.launches) {
    LoweredKernel kernel = kernels[launch.repeated() ? facts.units[static_cast<size_t>(launch.unit)].kernel
                                                     : static_cast<size_t>(launch.kernel)];
    if (launch.repeated() && facts.units[static_cast<size_t>(launch.unit)].row >= 0) {
      kernel.joined = {kernel.joined[static_cast<size_t>(facts.units[static_cast<size_t>(launch.unit)].row)]};
    }
    std::map<int, int> read, written;  // vertex of the base -> of the version
    for (int v : launch.reads)
      read[facts.bases[static_cast<size_t>(sequence.base[static_cast<size_t>(v)])].vertex] = vertex(v);
    for (int v : launch.writes)
      written[facts.bases[static_cast<size_t>(sequence.base[static_cast<size_t>(v)])].vertex] = vertex(v);
    const auto bind = [&](std::vector<SlotRef>& slots) {
      for (size_t i = 0; i < slots.size(); ++i) {
        if (slots[i].kind != SlotRef::Kind::vertex) continue;
        const std::map<int, int>& names = kernel.source.buffers[i].access == Access::read ? read : written;
        if (const auto at = names.find(slots[i].index); at != names.end()) slots[i].index = at->second;
      }
    };
    bind(kernel.bindings);
    for (LoweredKernel::JoinedRow& row : kernel.joined) bind(row.bindings);
    // Names of what it computes (profiles, places): those of the originals.
    std::erase_if(kernel.writes, [&](int v) { return launch.repeated() && !written.contains(v); });
    list.push_back(std::move(kernel));
  }
  return list;
}

}  // namespace heddle
