#include "tools/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/base/system/terminal.h"
#include "tools/output.h"

namespace heddle::tools {
namespace {

constexpr std::chrono::milliseconds bar_interval{100}, line_interval{2000};

std::string numbers(const ProgressState& s) {
  return fmt::format("loss {:.4f}  lr {:.2g}  {} samples/s  ETA {}", s.loss, s.lr, with_commas(s.samples_per_second),
                     clock_time(s.seconds_left));
}

std::string bar(double share, int width) {
  const int full = std::clamp(static_cast<int>(share * width + 0.5), 0, width);
  return std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(width - full), '.');
}

}  // namespace

std::string with_commas(double number) {
  std::string digits = fmt::format("{:.0f}", number);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(static_cast<size_t>(at), ",");
  return digits;
}

std::string clock_time(double seconds) {
  const long whole = std::isfinite(seconds) ? std::lround(std::max(0.0, seconds)) : 0;
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

Progress::Progress(bool silent)
    : style_(silent                                ? Style::silent
             : os::is_terminal(os::Stream::output) ? Style::bar
                                                   : Style::lines),
      last_(Clock::now()) {}

Progress::~Progress() { erase(); }

bool Progress::due() const {
  if (style_ == Style::silent) return false;
  return Clock::now() - last_ >= (style_ == Style::bar ? bar_interval : line_interval);
}

void Progress::show(const ProgressState& state) {
  const double share = state.steps > 0 ? static_cast<double>(state.step) / static_cast<double>(state.steps) : 0;
  const std::string head = fmt::format("epoch {}/{}", state.epoch, state.epochs);
  show(style_ == Style::lines ? fmt::format("{}  step {}/{}", head, state.step, state.steps) : head, share,
       numbers(state));
}

void Progress::show(const std::string& head, double share, const std::string& numbers) {
  last_ = Clock::now();
  if (style_ == Style::lines) {
    print_out(fmt::format("{}  {}\n", head, numbers));
  } else if (style_ == Style::bar) {
    const std::string tail = fmt::format(" {:3.0f}%  {}", share * 100, numbers);
    const int room = os::terminal_columns() - 4 - static_cast<int>(head.size() + tail.size());
    std::string text = room >= 5 ? fmt::format("{} [{}]{}", head, bar(share, std::min(room, 40)), tail) : head + tail;
    text.resize(std::min(text.size(), static_cast<size_t>(std::max(1, os::terminal_columns() - 1))));
    print_out("\r\x1b[K" + text);
    drawn_ = true;
  }
}

void Progress::line(const std::string& text) {
  if (style_ == Style::silent) return;
  erase();
  print_out(text + '\n');
}

void Progress::erase() {
  if (!drawn_) return;
  print_out("\r\x1b[K");
  drawn_ = false;
}

}  // namespace heddle::tools
