#include "bench/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "heddle/core/base/markup.h"
#include "heddle/core/device/context.h"

namespace heddle::bench {
namespace {

// Distinguishable on white, also in grey (Okabe and Ito's palette, darker yellow).
constexpr std::array<const char*, 8> colours = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                                "#b8860b", "#56b4e9", "#e69f00", "#444444"};
constexpr double left = 70, top = 50, plot_width = 640, plot_height = 480, legend_x = left + plot_width + 30,
                 line_height = 16;

// Decades that hold all values.
struct LogAxis {
  int low = 0, high = 1;
  double start = 0, length = 1;
  bool upwards = false;

  void fit(double value) {
    low = std::min(low, static_cast<int>(std::floor(std::log10(value))));
    high = std::max(high, static_cast<int>(std::ceil(std::log10(value) + 1e-9)));
  }
  double at(double value) const {
    const double share = (std::log10(value) - low) / (high - low);
    return upwards ? start + length * (1 - share) : start + length * share;
  }
};

class Plot {
 public:
  Plot(const std::vector<Row>& rows, const std::vector<Roofs>& roofs) : roofs_(roofs) {
    for (const Row& row : rows) {
      if (row.flops > 0 && row.bytes > 0 && row.seconds.median > 0) rows_.push_back(row);
    }
    x_ = {-1, 1, left, plot_width, false};
    y_ = {0, 1, top, plot_height, true};
    for (const Row& row : rows_) {
      x_.fit(row.flops / row.bytes);
      y_.fit(row.gflops());
      if (row.bound != Bound::none && row.fraction.median > 0) y_.fit(row.gflops() / row.fraction.median);
      if (!family_colour_.contains(row.family))
        family_colour_.emplace(row.family, colours[family_colour_.size() % colours.size()]);
    }
    for (const Roofs& roof : roofs_) {
      if (roof.flops > 0) y_.fit(roof.flops * 1e-9);
      if (roof.flops > 0 && roof.copy > 0) x_.fit(roof.flops / roof.copy);
    }
  }

  std::string svg(const std::string& title) {
    axes();
    for (size_t i = 0; i < roofs_.size(); ++i) roof(roofs_[i], i);
    legend_note("roofs: with the largest arrays; a bar: with a row's own traffic");
    for (size_t i = 0; i < rows_.size(); ++i) mark(rows_[i], i + 1);
    const double height = std::max(top + plot_height + 60, legend_y_ + 20);
    return fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} "
        "{1:.0f}\" font-family=\"sans-serif\" "
        "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{2}\" y=\"28\" "
        "font-size=\"17\">{3}</text>\n{4}{5}</svg>\n",
        legend_x + 400, height, left, escape_markup(title), body_, legend_);
  }

 private:
  void text(double x, double y, const std::string& words, const std::string& more = "") {
    body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" {}>{}</text>\n", x, y, more, escape_markup(words));
  }
  void line(double x1, double y1, double x2, double y2, const std::string& style) {
    body_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1, x2, y2, style);
  }

  static std::string power(int exponent) {
    return exponent >= 0 && exponent <= 4 ? fmt::format("{:.0f}", std::pow(10, exponent))
           : exponent == -1               ? "0.1"
           : exponent == -2               ? "0.01"
                                          : fmt::format("1e{}", exponent);
  }

  void axes() {
    const std::string grid = "stroke=\"#dddddd\"", fine = "stroke=\"#f1f1f1\"";
    for (int d = x_.low; d <= x_.high; ++d) {
      for (int k = 2; k < 10 && d < x_.high; ++k)
        line(x_.at(k * std::pow(10, d)), top, x_.at(k * std::pow(10, d)), top + plot_height, fine);
      line(x_.at(std::pow(10, d)), top, x_.at(std::pow(10, d)), top + plot_height, grid);
      text(x_.at(std::pow(10, d)), top + plot_height + 18, power(d), "text-anchor=\"middle\"");
    }
    for (int d = y_.low; d <= y_.high; ++d) {
      for (int k = 2; k < 10 && d < y_.high; ++k)
        line(left, y_.at(k * std::pow(10, d)), left + plot_width, y_.at(k * std::pow(10, d)), fine);
      line(left, y_.at(std::pow(10, d)), left + plot_width, y_.at(std::pow(10, d)), grid);
      text(left - 8, y_.at(std::pow(10, d)) + 4, power(d), "text-anchor=\"end\"");
    }
    body_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888888\"/>\n",
                         left, top, plot_width, plot_height);
    text(left + plot_width / 2, top + plot_height + 42, "operations per byte", "text-anchor=\"middle\"");
    text(20, top + plot_height / 2, "GFLOP/s",
         fmt::format("text-anchor=\"middle\" transform=\"rotate(-90 20 {})\"", top + plot_height / 2));
  }

  // A slope for each bandwidth, cut by the peak.
  void roof(const Roofs& r, size_t index) {
    const std::string dash =
        index == 0 ? "" : fmt::format(" stroke-dasharray=\"{} 4\"", 10 - 2 * std::min<size_t>(index, 3));
    const auto slope = [&](double bytes, const char* colour, const std::string& label) {
      if (bytes <= 0) return;
      const double peak = r.flops > 0 ? r.flops : std::pow(10, y_.high) * 1e9;
      const double first = std::max(std::pow(10, x_.low), std::pow(10, y_.low) * 1e9 / bytes),
                   last = std::min(std::pow(10, x_.high), peak / bytes);
      if (first < last)
        line(x_.at(first), y_.at(first * bytes * 1e-9), x_.at(last), y_.at(last * bytes * 1e-9),
             fmt::format("stroke=\"{}\" stroke-width=\"1.6\"{}", colour, dash));
      legend_line(colour, dash, fmt::format("{}: {} {:.1f} GB/s", r.device, label, bytes * 1e-9));
    };
    slope(r.copy, "#333333", "copy");
    slope(r.read, "#999999", "read");
    if (r.flops <= 0) return;
    const double from =
        r.copy > 0 ? std::max(std::pow(10, x_.low), r.flops / std::max(r.copy, r.read)) : std::pow(10, x_.low);
    line(x_.at(from), y_.at(r.flops * 1e-9), left + plot_width, y_.at(r.flops * 1e-9),
         fmt::format("stroke=\"#333333\" stroke-width=\"1.6\"{}", dash));
    legend_line("#333333", dash, fmt::format("{}: peak {:.0f} GFLOP/s", r.device, r.flops * 1e-9));
  }

  void legend_line(const char* colour, const std::string& dash, const std::string& words) {
    legend_ +=
        fmt::format("<line x1=\"{0}\" y1=\"{2}\" x2=\"{1}\" y2=\"{2}\" stroke=\"{3}\" stroke-width=\"1.6\"{4}/>\n",
                    legend_x, legend_x + 20, legend_y_ - 4, colour, dash);
    legend_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", legend_x + 28, legend_y_, escape_markup(words));
    legend_y_ += line_height;
  }

  void legend_note(const std::string& words) {
    legend_ +=
        fmt::format("<text x=\"{}\" y=\"{}\" fill=\"#666666\">{}</text>\n", legend_x, legend_y_, escape_markup(words));
    legend_y_ += line_height;
  }

  // A numbered mark; its number moves up while another one is in its place.
  void mark(const Row& row, size_t number) {
    const double x = x_.at(row.flops / row.bytes), y = y_.at(row.gflops());
    const char* colour = family_colour_.at(row.family);
    const size_t device = device_index(row.device);
    if (device == 0)
      body_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>\n", x, y, colour);
    else
      body_ += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"7\" height=\"7\" fill=\"none\" stroke=\"{}\" "
          "stroke-width=\"1.8\"/>\n",
          x - 3.5, y - 3.5, colour);
    if (row.bound != Bound::none && row.fraction.median > 0)
      own_bound(x, y, y_.at(row.gflops() / row.fraction.median), colour);
    double label_x = x + 6, label_y = y - 5;
    for (int tries = 0; tries < 12 && taken(label_x, label_y); ++tries) {
      label_y -= 11;
      if (tries % 4 == 3) {
        label_x += 16;
        label_y = y - 5;
      }
    }
    labels_.emplace_back(label_x, label_y);
    text(label_x, label_y, std::to_string(number), fmt::format("font-size=\"10\" fill=\"{}\"", colour));
    std::string words = fmt::format("{} {}", row.family, row.name);
    if (row.dtype != DType::f32) words += fmt::format(" {}", heddle::name_of(row.dtype));
    if (roofs_.size() > 1) words += " " + row.device;
    words += fmt::format(": {:.3g} GFLOP/s", row.gflops());
    if (row.bound != Bound::none) words += fmt::format(", {:.2f} of {}", row.fraction.median, name_of(row.bound));
    if (number == 1) legend_y_ += line_height / 2;
    legend_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\" fill=\"{}\">{}</text>\n", legend_x + 20,
                           legend_y_, colour, number);
    legend_ += fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", legend_x + 28, legend_y_, escape_markup(words));
    legend_y_ += line_height;
  }

  // What the device did with this row's own traffic, which the row is a fraction of: where that fits a cache, it lies
  // above the roofs, which are those of large arrays.
  void own_bound(double x, double y, double bound, const char* colour) {
    line(x, y, x, bound, fmt::format("class=\"bound\" stroke=\"{}\" stroke-dasharray=\"1 2\"", colour));
    line(x - 6, bound, x + 6, bound, fmt::format("class=\"bound\" stroke=\"{}\" stroke-width=\"1.6\"", colour));
  }

  bool taken(double x, double y) const {
    return std::any_of(labels_.begin(), labels_.end(),
                       [&](const auto& l) { return std::abs(l.first - x) < 15 && std::abs(l.second - y) < 10; });
  }
  size_t device_index(const std::string& device) const {
    for (size_t i = 0; i < roofs_.size(); ++i) {
      if (roofs_[i].device.starts_with(device)) return i;
    }
    return 0;
  }

  std::vector<Row> rows_;
  const std::vector<Roofs>& roofs_;
  LogAxis x_, y_;
  std::map<std::string, const char*> family_colour_;
  std::vector<std::pair<double, double>> labels_;
  std::string body_, legend_;
  double legend_y_ = top + 10;
};

}  // namespace

std::string roofline_svg(const std::vector<Row>& rows, const std::vector<Roofs>& roofs, const std::string& title) {
  return Plot(rows, roofs).svg(title);
}

}  // namespace heddle::bench
