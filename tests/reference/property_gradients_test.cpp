// Gradients of second order against differences of the first, and forward mode against reverse mode.
#include <fmt/format.h>

#include <cmath>

#include "heddle/autograd/transforms.h"
#include "tests/reference/property.h"

namespace heddle::tests {
namespace {

// Random directions as large as the elements they move, so that a step crosses neither 0 nor a digit. Zeros stay: there
// many functions have a kink.
List relative_directions(const List& x, uint32_t seed) {
  List all;
  for (const Tensor& t : x) all.push_back(direction(t, seed + static_cast<uint32_t>(all.size())) * abs(t));
  return all;
}

List moved(const List& x, const List& by, double step) {
  List at;
  for (size_t i = 0; i < x.size(); ++i) at.push_back(x[i] + step * by[i]);
  return at;
}

// What cancels in a sum of products: the scale of its rounding.
double terms(const List& a, const List& b) {
  List sizes_a, sizes_b;
  for (const Tensor& t : a) sizes_a.push_back(abs(t));
  for (const Tensor& t : b) sizes_b.push_back(abs(t));
  return inner(sizes_a, sizes_b).item();
}

std::string close(const char* what, double found, double expected, double scale, double tolerance) {
  if (std::abs(found - expected) <= tolerance * (1 + scale)) return "";  // false for NaN
  return fmt::format("{}: {:.12g} instead of {:.12g}", what, found, expected);
}

// d/dt <grad L(x + t w), v> by the graph and by a difference over 2e-5: L = <f, u> for fixed u. Gradients of first
// order are compared with PyTorch's elsewhere.
Verdict second_order(const StoredCase& stored) {
  const Subject s(stored);
  if (!s.smooth() || !stored.kind.empty()) return not_applicable;
  const List x = s.variables(), u = directions(s.smooth_outputs(x), 1), v = relative_directions(x, 2),
             w = relative_directions(x, 3);
  if (!all_finite(x)) return not_applicable;
  const auto slope = [&](const List& at) {
    return inner(grad([&](const List& in) { return inner(s.smooth_outputs(in), u); })(at), v);
  };
  constexpr double step = 1e-5;
  const double found = inner(grad(slope)(x), w).item();
  const double ahead = slope(moved(x, w, step)).item(), behind = slope(moved(x, w, -step)).item();
  // Rounding in the slopes is divided by the step: 1e-16 / 1e-5.
  return close("second derivative", found, (ahead - behind) / (2 * step), std::abs(found) + 1e-3 * std::abs(ahead),
               2e-6);
}

// <jvp(v), u> = <v, vjp(u)>, and the same for the gradient: H v by forward over reverse and by reverse over reverse.
Verdict forward_mode(const StoredCase& stored) {
  const Subject s(stored);
  if (!s.smooth()) return not_applicable;
  const List x = s.variables(), v = directions(x, 2), w = directions(x, 3);
  const auto f = [&](const List& in) { return s.smooth_outputs(in); };
  const auto [y, dy] = jvp(f, x, v);
  if (!all_finite(x) || !all_finite(y)) return not_applicable;
  const List u = directions(y, 1);
  const auto [again, pull] = vjp(f, x);
  if (const std::string wrong = list_difference(y, again, 0); !wrong.empty()) return wrong;
  const List g = pull(u);
  const double forward = inner(dy, u).item(), reverse = inner(g, v).item();
  if (!std::isfinite(reverse))
    return std::isfinite(forward) ? "forward mode is finite, reverse mode is not" : std::string();
  if (std::string wrong = close("forward mode", forward, reverse, terms(g, v), 1e-9); !wrong.empty()) return wrong;

  const auto loss = [&](const List& in) { return inner(s.smooth_outputs(in), u); };
  const List product = hvp(loss, x, v);
  const double mixed = inner(product, w).item();
  const double twice = inner(grad([&](const List& in) { return inner(grad(loss)(in), v); })(x), w).item();
  if (!std::isfinite(twice))
    return std::isfinite(mixed) ? "forward over reverse is finite, reverse over reverse is not" : std::string();
  return close("forward over reverse", mixed, twice, terms(product, w), 1e-8);
}

HEDDLE_PROPERTY(SecondOrder, second_order);
HEDDLE_PROPERTY(ForwardMode, forward_mode);

}  // namespace
}  // namespace heddle::tests
