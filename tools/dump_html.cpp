#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "heddle/core/base/markup.h"
#include "tools/dump_draw.h"

namespace heddle::tools {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --back: #fbfbfa; --text: #23272b; --soft: #6c757d; --line: #d9dcdf; --card: #ffffff; --code: #f4f5f6; --edge: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --back: #17191c; --text: #dde1e5; --soft: #8f98a1; --line: #34393f; --card: #1e2125; --code: #24282d; --edge: #17191c; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 24px 32px 64px; background: var(--back); color: var(--text); font: 14px/1.45 system-ui, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 20px; margin: 0 0 2px; } h2 { font-size: 15px; margin: 32px 0 8px; }
p { margin: 4px 0; color: var(--soft); max-width: 90ch; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 16px 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 8px 14px; min-width: 120px; }
.card b { display: block; font-size: 17px; font-weight: 600; font-variant-numeric: tabular-nums; } .card span { color: var(--soft); font-size: 12px; }
.scroll { overflow-x: auto; border: 1px solid var(--line); border-radius: 8px; background: var(--card); }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { padding: 4px 12px; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td.wide { white-space: normal; overflow-wrap: anywhere; min-width: 120px; }
tr:last-child > td { border-bottom: 0; }
details > summary { cursor: pointer; } pre { margin: 8px 0; padding: 12px; background: var(--code); border-radius: 6px; overflow: auto; max-height: 520px; font: 12px/1.4 ui-monospace, Menlo, Consolas, monospace; }
svg { display: block; max-width: 100%; height: auto; } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; } svg .axis { stroke: var(--line); } svg rect.v { stroke: var(--edge); stroke-width: .6; } svg rect.thin { stroke: none; } svg rect.v:hover { stroke: var(--text); stroke-width: 1.5; }
svg .live { fill: none; stroke: var(--text); stroke-width: 1.2; stroke-dasharray: 4 3; opacity: .7; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; margin: 8px 2px; white-space: nowrap; color: var(--soft); font-size: 12px; } .legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px; vertical-align: -1px; }
)";

// Colours that stand out on light and dark ground; by what makes a value.
struct Kind {
  const char* name;
  const char* color;
};
constexpr std::array<Kind, 5> kinds = {{{"elementwise", "#5b8fd6"},
                                        {"reduction", "#d08a3c"},
                                        {"product", "#4fa071"},
                                        {"convolution, attention and other bodies", "#9a6fc4"},
                                        {"moved or indexed", "#8d969e"}}};

size_t kind_of(const IrNode& node) {
  switch (node.op->kind) {
    case OpKind::elementwise:
    case OpKind::random:
      return 0;
    case OpKind::reduce:
      return 1;
    case OpKind::contraction:
      return 2;
    case OpKind::body:
      return 3;
    default:
      return 4;
  }
}

std::string card(const std::string& value, const char* name) {
  return fmt::format("<div class=card><b>{}</b><span>{}</span></div>\n", escape_markup(value), name);
}

std::string cards(const FullPlan& full) {
  double bytes = 0, flops = 0;
  for (const KernelFacts& f : full.kernels) {
    bytes += f.bytes();
    flops += f.flops;
  }
  const MemoryReport& l = full.report;
  std::string text = "<div class=cards>\n" + card(std::to_string(full.kernels.size()), "kernels") +
                     card(bytes_text(bytes), "moved by them") +
                     card(fmt::format("{:.1f}", flops * 1e-6), "million operations");
  text += card(bytes_text(static_cast<double>(l.arena)), "arena") +
          card(bytes_text(static_cast<double>(l.lower_bound)), "alive at once, at most") +
          card(bytes_text(static_cast<double>(l.all_values)), "all values together");
  return text + card(bytes_text(static_cast<double>(l.parameters)), "parameters") +
         card(bytes_text(static_cast<double>(l.peak())), "predicted peak") + "</div>\n";
}

// Time runs to the right, one column per kernel; addresses run up, blocks of the arena one above the other.
class ArenaMap {
 public:
  explicit ArenaMap(const FullPlan& full) : full_(full), graph_(full.plan.scheduled.graph) {
    for (const Lifetime& life : full.plan.memory.lifetimes) last_ = std::max(last_, life.last);
    last_ = std::max(last_, static_cast<int>(full.kernels.size()) - 1);
    double start = 0;
    for (const uint64_t bytes : full.plan.memory.arena.block_bytes) {
      block_start_.push_back(start);
      start += static_cast<double>(bytes);
    }
    total_ = std::max(start, 1.0);
    column_ = std::clamp(1100.0 / (last_ + 1), 3.0, 60.0);
  }

  std::string svg() const {
    const double width = left + column_ * (last_ + 1) + 16, height = top + plot + 34;
    // As wide as the window, down to what can still be read: there it scrolls.
    const double least = std::min(width, std::max(700.0, left + 3.0 * (last_ + 1) + 16));
    std::string text = fmt::format(
        "<svg style=\"width:{0:.0f}px;min-width:{2:.0f}px\" viewBox=\"0 0 {0:.0f} {1:.0f}\" role=img "
        "aria-label=\"arena map\">\n",
        width, height, least);
    text += axes();
    for (size_t i = 0; i < full_.plan.memory.lifetimes.size(); ++i) text += rectangle(i);
    return text + live() + "</svg>\n";
  }

 private:
  static constexpr double left = 78, top = 12, plot = 380;
  double x(int kernel) const { return left + column_ * kernel; }
  double y(double address) const { return top + plot * (1 - address / total_); }

  std::string axes() const {
    std::string text;
    for (int i = 0; i <= 4; ++i) {
      const double address = total_ * i / 4;
      text += fmt::format(
          "<line class=axis x1=\"{}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" y=\"{:.1f}\" "
          "text-anchor=end>{}</text>\n",
          left, x(last_ + 1), y(address), y(address), left - 8, y(address) + 4, bytes_text(address));
    }
    const int every = std::max(1, (last_ + 1) / 12);
    for (int k = 0; k <= last_; k += every)
      text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=middle>{}</text>\n", x(k) + column_ / 2,
                          top + plot + 16, k);
    return text + fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=middle>kernel</text>\n",
                              left + column_ * (last_ + 1) / 2, top + plot + 31);
  }

  std::string kernel_name(int k) const {
    return k < static_cast<int>(full_.kernels.size())
               ? fmt::format("{} {}", k, full_.kernels[static_cast<size_t>(k)].name)
               : "the end";
  }

  std::string rectangle(size_t i) const {
    const Lifetime& life = full_.plan.memory.lifetimes[i];
    const Placement& place = full_.plan.memory.arena.placements[i];
    const double address = block_start_.at(static_cast<size_t>(place.block)) + static_cast<double>(place.offset),
                 bytes = static_cast<double>(life.bytes);
    const IrNode& node = graph_.nodes[static_cast<size_t>(life.vertex)];
    const std::string tip =
        fmt::format("{}\n{} at {}:{}\nwritten by kernel {}\nlast read by kernel {}", vertex_text(graph_, life.vertex),
                    bytes_text(bytes), place.block, place.offset, kernel_name(life.first), kernel_name(life.last));
    const double tall = std::max(plot * bytes / total_, 0.6);
    return fmt::format(
        "<rect class=\"v{}\" x=\"{:.1f}\" y=\"{:.2f}\" width=\"{:.1f}\" height=\"{:.2f}\" rx=1 "
        "fill=\"{}\"><title>{}</title></rect>\n",
        tall < 3 ? " thin" : "", x(life.first), y(address + bytes), column_ * (life.last - life.first + 1), tall,
        kinds[kind_of(node)].color, escape_markup(tip));
  }

  // Bytes alive at each kernel.
  std::string live() const {
    std::string points;
    for (int k = 0; k <= last_; ++k) {
      double bytes = 0;
      for (const Lifetime& life : full_.plan.memory.lifetimes)
        bytes += life.first <= k && k <= life.last ? static_cast<double>(life.bytes) : 0;
      points += fmt::format("{:.1f},{:.1f} {:.1f},{:.1f} ", x(k), y(bytes), x(k + 1), y(bytes));
    }
    return fmt::format("<polyline class=live points=\"{}\"/>\n", points);
  }

  const FullPlan& full_;
  const Graph& graph_;
  int last_ = 0;
  double total_ = 1, column_ = 1;
  std::vector<double> block_start_;
};

std::string arena(const FullPlan& full) {
  std::string text = "<h2>Arena</h2>\n";
  if (full.plan.memory.lifetimes.empty()) return text + "<p>This step has no temporaries.</p>\n";
  text +=
      "<p>Each rectangle is a temporary value: from the kernel that writes it to the last that reads it, and the "
      "addresses that it has. The dashed line is what is alive at once; rest the pointer on a rectangle to see what it "
      "is.</p>\n<div class=legend>";
  for (const Kind& kind : kinds)
    text += fmt::format("<span><i style=\"background:{}\"></i>{}</span>", kind.color, kind.name);
  return text + "</div>\n<div class=scroll>" + ArenaMap(full).svg() + "</div>\n";
}

std::string launch_text(const LoweredKernel& kernel) {
  const auto& lanes = kernel.source.group;
  if (!kernel.joined.empty()) return fmt::format("{} joined rows", kernel.joined.size());
  return fmt::format("{} x {} x {} groups of {}", kernel.groups[0], kernel.groups[1], kernel.groups[2],
                     static_cast<uint64_t>(lanes[0]) * lanes[1] * lanes[2]);
}

std::string schedule(const FullPlan& full) {
  std::string text =
      "<h2>Schedule</h2>\n<p>Kernels in the order in which they run; open one to read its source. Bytes: what it must "
      "read and write at least once.</p>\n<div class=scroll><table>\n";
  text += "<tr><th class=n>#<th>kernel<th>computes<th class=n>moved<th class=n>M operations<th>launch<th>where</tr>\n";
  for (size_t k = 0; k < full.kernels.size(); ++k) {
    const KernelFacts& f = full.kernels[k];
    const LoweredKernel& kernel = full.plan.kernels[k];
    text += fmt::format(
        "<tr><td class=n>{}<td><details><summary>{}</summary><pre>{}</pre></details><td class=wide>{}<td class=n>{}<td "
        "class=n>{:.3f}<td class=wide>{}<td class=wide>{}</tr>\n",
        k, escape_markup(f.name), escape_markup(kernel.source.str()), escape_markup(f.ops), bytes_text(f.bytes()),
        f.flops * 1e-6, launch_text(kernel), escape_markup(fmt::format("{}", fmt::join(f.lines, ", "))));
  }
  return text + "</table></div>\n";
}

std::string folded(const char* name, const std::string& content) {
  return fmt::format("<details><summary>{} ({} lines)</summary><pre>{}</pre></details>\n", name,
                     std::count(content.begin(), content.end(), '\n'), escape_markup(content));
}

}  // namespace

std::string step_html(const FullPlan& full, const std::string& title) {
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=en><head><meta charset=utf-8><meta name=viewport "
      "content=\"width=device-width\"><title>{}</title>\n<style>{}</style></head>\n<body>\n<h1>{}</h1>\n<p>Planned for "
      "{} by heddle dump.</p>\n",
      escape_markup(title), style, escape_markup(title), escape_markup(full.device));
  text += cards(full) + arena(full) + schedule(full);
  text += "<h2>Graph</h2>\n" + folded("As recorded", full.recorded.str()) +
          folded("After the passes", full.prepared.str()) + folded("Groups", full.plan.scheduled.str()) +
          folded("Memory plan", full.plan.memory.str()) + folded("Ledger", full.report.str());
  return text + "</body></html>\n";
}

}  // namespace heddle::tools
