// Special functions: Chebyshev series, asymptotic series, and rules for their derivatives.
#include "core/functions/math/special.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numbers>
#include <vector>

#include "core/functions/build.h"
#include "core/graph/custom.h"

namespace heddle {
namespace {

// Coefficients of Chebyshev polynomials T_0, T_1, ... in [-1, 1], computed with 40 digits; the first `short_terms` are
// enough for f32.
struct Series {
  size_t short_terms = 0;
  std::vector<double> c;
};
// i0, i1 / x times exp(-x) for x = 4 (t + 1); their like times sqrt(x) exp(-x) for x = 16 / (t + 1); j0, j1 / x and the
// rests of y0, y1 / x for x^2 = 32 (t + 1); P and Q x / 8 for (8 / x)^2 = (t + 1) / 2; (1 + 2 x) erfcx(x) for x = 3.75
// (1 + t) / (1 - t).
const Series i0_near{19,
                     {0.33839763720473804,    -0.3046826723431984,     0.17162090152220878,    -0.094901097048047644,
                      0.049305284239670708,   -0.023737414805899469,   0.010546460394594998,   -0.0043243099950505759,
                      0.0016394756169413358,  -0.00057637557453858237, 0.00018850288509584166, -5.7541950100821037e-5,
                      1.6448448070728897e-5,  -4.4167383584587506e-6,  1.1173875391201037e-6,  -2.6707938539406117e-7,
                      6.0469950225419189e-8,  -1.300025009986248e-8,   2.6598237246823867e-9,  -5.1897956016352629e-10,
                      9.6758090353732369e-11, -1.7268262914415557e-11, 2.9550526631296398e-12, -4.8564467831119295e-13,
                      7.6761854986049356e-14, -1.1685332877993452e-14, 1.715391285555133e-15,  -2.4312798465479547e-16,
                      3.3307945188222381e-17}};
const Series i0_far{7,
                    {0.40224520550705442,     0.0033691164782556941,   6.889758346916824e-5,    2.8913705208347565e-6,
                     2.0489185894690637e-7,   2.2666689904981781e-8,   3.3962320257083863e-9,   4.9406023882249696e-10,
                     1.1889147107846438e-11,  -3.1499165279632414e-11, -1.3215811840447713e-11, -1.7941785315068061e-12,
                     7.1801244513836662e-13,  3.8527783827421427e-13,  1.5400862175214098e-14,  -4.1505693472872221e-14,
                     -9.5548466988283076e-15, 3.8116806693526224e-15,  1.7725601330565264e-15,  -3.4254856196772191e-16,
                     -2.8276239805165835e-16, 3.4612228676974611e-17,  4.46562142029676e-17}};
const Series i1_near{
    19, {0.12629359322181683,    -0.17641651835783406,    0.1026436586898471,     -0.052945981208094991,
         0.024726449030626517,   -0.010564084894626198,   0.0041564229443128882,  -0.0015135724506312531,
         0.00051228595616857577, -0.00016176081582589675, 4.7815651075500542e-5,  -1.3273163656039436e-5,
         3.4702513081376785e-6,  -8.5687202646954547e-7,  2.0032947535521353e-7,  -4.4450591287963281e-8,
         9.3815373864957718e-9,  -1.8872497517228293e-9,  3.625590281552117e-10,  -6.6634897235020277e-11,
         1.1736186298890902e-11, -1.9839743977649437e-12, 3.2237933659455747e-13, -5.0421855047279117e-14,
         7.6006842947354069e-15, -1.1055969477353863e-15, 1.5536319577362005e-16, -2.1114212143581661e-17}};
const Series i1_far{7,
                    {0.38928811750914006,     -0.0097610974913614684,  -0.00011058893876262372, -3.8825648088776904e-6,
                     -2.5122362378702089e-7,  -2.6314688468895195e-8,  -3.835380385964237e-9,   -5.5897434621965838e-10,
                     -1.8974958123505412e-11, 3.2526035830154882e-11,  1.4125807436613781e-11,  2.0356285441470895e-12,
                     -7.1985517762459085e-13, -4.0835511110921973e-13, -2.1015418427726643e-14, 4.2724400167119514e-14,
                     1.0420276984128803e-14,  -3.8144030724370078e-15, -1.8803547755107824e-15, 3.3082023109209283e-16,
                     2.9626289976459501e-16,  -3.209525921993424e-17,  -4.6503053684893583e-17}};
const Series j0_near{
    12,
    {0.15772797147489012, -0.0087234423528522213, 0.26517861320333681, -0.37009499387264978, 0.15806710233209726,
     -0.034893769411408885, 0.0048191800694676045, -0.00046062616620627505, 3.2460328821005081e-5,
     -1.7619469077621507e-6, 7.6081635924187819e-8, -2.6792535305576729e-9, 7.8486963144794644e-11,
     -1.9438346867370166e-12, 4.1253205956343739e-14, -7.5885081254475463e-16}};
const Series j1_near{
    11,
    {0.081044846325658115, -0.14897514506765211, 0.1609992623572097, -0.082680491766817907, 0.022213639654966035,
     -0.003646940600769276, 0.00040503377283548218, -3.2555548668572585e-5, 1.9858774049915167e-6,
     -9.5219847567504362e-8, 3.6871337590971482e-9, -1.1780266226958848e-10, 3.1601545803480033e-12,
     -7.2217552396517734e-14, 1.4232144003513942e-15, -2.4441972916190464e-17}};
// y0 - 2 / pi log(x / 2) j0, and (y1 + 2 / (pi x) - 2 / pi log(x / 2) j1) / x
const Series y0_rest{
    11,
    {0.036454698091160444, -0.27832370940758248, 0.29604999902071482, 0.098255084081878641, -0.10755155280627784,
     0.031799074084414515, -0.0051613971058107149, 0.00054985253200390115, -4.1996983149420131e-5,
     2.4290361107923794e-6, -1.1049969793472956e-7, 4.0665173659791105e-9, -1.2374148898289852e-10,
     3.1685725528945944e-12, -6.9269560324310011e-14, 1.3086308625876684e-15, -2.1586201986914483e-17}};
const Series y1_rest{
    10,
    {0.038300769852423779, -0.081825614127328264, -0.024867707612196401, 0.047967452752746983, -0.018525884510898022,
     0.0036806076878235111, -0.00046272540602933687, 4.0694002695808699e-5, -2.6617695125295626e-6,
     1.3506026913254338e-7, -5.4835241103362766e-9, 1.8245086841229008e-10, -5.0706666365911291e-12,
     1.1956162517587949e-13, -2.4231624427124732e-15, 4.2681265130729624e-17}};
const Series p0{4,
                {0.99946034934751867, -0.00053652204681321174, 3.0751847875194746e-6, -5.1705945376060977e-8,
                 1.6306464635151383e-9, -7.86409137723707e-11, 5.1682623873491925e-12, -4.3045788699253912e-13,
                 4.3265957431549406e-14, -5.0690340959352361e-15, 6.7480722157338737e-16, -1.0011513723467786e-16}};
const Series q0{6,
                {-0.015555854605337009, 6.8385199426116496e-5, -7.4144984110606473e-7, 1.7972457247968992e-8,
                 -7.27191593686632e-10, 4.2201219046687384e-11, -3.2067474209966347e-12, 3.0061451253517063e-13,
                 -3.336328185322427e-14, 4.2552250402454611e-15, -6.09993013164005e-16, 9.6621289703032567e-17,
                 -1.6686065214378146e-17, 3.1082440486738144e-18}};
const Series p1{4,
                {1.0009030408600137, 0.00089898983308594086, -3.9872843004889085e-6, 6.1776339606442985e-8,
                 -1.8718907491063066e-9, 8.8168986595823389e-11, -5.7048636403956447e-12, 4.6991955152305424e-13,
                 -4.6842237839904892e-14, 5.4526748960447172e-15, -7.2211808422740179e-16, 1.0667689114335412e-16}};
const Series q1{5,
                {0.046777787069535325, -9.6277235491570793e-5, 9.1386152579554541e-7, -2.0959781384083422e-8,
                 8.2291933276505541e-10, -4.6863636881769452e-11, 3.5152187949686081e-12, -3.2643156743278999e-13,
                 3.5967765829165292e-14, -4.5612523950772972e-15, 6.508282957783384e-16, -1.0269147531823243e-16,
                 1.7676355487764792e-17, -3.2834519872981615e-18}};
const Series erfcx_series{
    14, {1.1775789345674018,     -0.0045900545806464773,  -0.084249133366517916,   0.059209939998191891,
         -0.026658668435305752,  0.0090749976707052651,   -0.0024131635404176082,  0.00049077583652580863,
         -6.916973302501207e-5,  4.1390279860730041e-6,   7.7403830661984393e-7,   -2.1886401049234748e-7,
         1.0764999465669479e-8,  4.5219598112191327e-9,   -7.754400208801414e-10,  -6.3180883404150887e-11,
         2.8687950115083566e-11, 1.9455869149153189e-13,  -9.6546966938705967e-13, 3.2525485611524031e-14,
         3.3478121726852901e-14, -1.8645628168563552e-15, -1.2507971598236607e-15, 7.4178386460436395e-17,
         5.0676229921937095e-17}};

Tensor sum_of(const Series& s, const Tensor& t) {  // Clenshaw
  const size_t terms = t.dtype() == DType::f64 ? s.c.size() : s.short_terms;
  const Tensor twice = 2 * t;
  Tensor b1 = full_like(t, s.c[terms - 1]), b2 = zeros_like(t);
  for (size_t k = terms - 1; k-- > 1;) {
    const Tensor b0 = twice * b1 - b2 + s.c[k];
    b2 = b1;
    b1 = b0;
  }
  return t * b1 - b2 + s.c[0];
}

// As f32 or f64, and back.
template <class F>
Tensor in_wide(const Tensor& x, F f) {
  const Tensor in = build::as_float(x);
  return cast(f(build::widen(in)), in.dtype());
}

// f(x), differentiated by what slope(x, f(x)) records.
Tensor with_slope(const char* name, const Tensor& x, const std::function<Tensor(const Tensor&)>& f,
                  std::function<Tensor(const Tensor& x, const Tensor& y)> slope) {
  auto rule = std::make_shared<CustomRule>();
  rule->name = name;
  rule->arguments = 1;
  rule->vjp = [slope](std::span<const Tensor> in, const Tensor& g) {
    return std::vector<Tensor>{g * slope(in[1], in[0])};
  };
  rule->jvp = [slope](std::span<const Tensor> in, std::span<const Tensor> tangents) {
    return tangents[0] * slope(in[1], in[0]);
  };
  return make_custom(f(stop_gradient(x)), std::span(&x, 1), std::move(rule));
}

// minimum() and maximum() with the slope of the inside on the bound.
Tensor at_most(const Tensor& a, double high) { return where(a > high, high, a); }
Tensor at_least(const Tensor& a, double low) { return where(a < low, low, a); }

// ---- modified Bessel functions, times exp(-|x|). a = |x|.
Tensor near_and_far(const Tensor& a, const Series& near, const Series& far, bool over_x) {
  const Tensor inner = sum_of(near, at_most(a, 8) * 0.25 - 1), outer = at_least(a, 8);
  const Tensor tail = sum_of(far, 16 / outer - 1) * rsqrt(outer);
  return where(a <= 8, inner, over_x ? tail / outer : tail);
}
Tensor scaled_i0(const Tensor& x) { return near_and_far(abs(x), i0_near, i0_far, false); }
Tensor scaled_i1_over_x(const Tensor& x) { return near_and_far(abs(x), i1_near, i1_far, true); }

Tensor scaled_i1(const Tensor& x) {
  const Tensor ends = isinf(x), v = where(ends, 1, x);
  return where(ends, 0, v * scaled_i1_over_x(v));
}
Tensor plain_i1_over_x(const Tensor& x) { return exp(abs(x)) * scaled_i1_over_x(x); }

Tensor wide_i0(const Tensor& x);
Tensor wide_i0e(const Tensor& x);
Tensor wide_i1(const Tensor& x) {
  return with_slope(
      "bessel_i1", x, [](const Tensor& v) { return v * plain_i1_over_x(v); },
      [](const Tensor& v, const Tensor&) { return wide_i0(v) - plain_i1_over_x(v); });
}
Tensor wide_i0(const Tensor& x) {
  return with_slope(
      "bessel_i0", x, [](const Tensor& v) { return exp(abs(v)) * scaled_i0(v); },
      [](const Tensor& v, const Tensor&) { return wide_i1(v); });
}
Tensor wide_i1e(const Tensor& x) {
  return with_slope("bessel_i1e", x, scaled_i1, [](const Tensor& v, const Tensor&) {
    return wide_i0e(v) - scaled_i1_over_x(v) - sign(v) * wide_i1e(v);
  });
}
Tensor wide_i0e(const Tensor& x) {
  return with_slope("bessel_i0e", x, scaled_i0,
                    [](const Tensor& v, const Tensor&) { return wide_i1e(v) - sign(v) * wide_i0e(v); });
}

// ---- Bessel functions of the first kind: sqrt(2 / pi a) (P cos(a - w) - Q sin(a - w)) far out, w = pi / 4 or 3 pi
// / 4. Of the second: P sin(a - w) + Q cos(a - w).
Tensor oscillating(const Tensor& a, const Series& p, const Series& q, int order, bool second = false) {
  const Tensor outer = at_least(a, 8), u = 8 / outer, t = 2 * (u * u) - 1;
  const Tensor c = cos(outer), s = sin(outer);
  const Tensor cosine = order == 0 ? c + s : s - c, sine = order == 0 ? s - c : -(s + c);  // times sqrt(2)
  const Tensor wave =
      second ? sum_of(p, t) * sine + u * sum_of(q, t) * cosine : sum_of(p, t) * cosine - u * sum_of(q, t) * sine;
  return wave * (std::numbers::inv_sqrtpi * rsqrt(outer));
}
Tensor inner_square(const Tensor& a) {
  const Tensor v = at_most(a, 8) * 0.125;
  return 2 * (v * v) - 1;
}
Tensor j1_over_x(const Tensor& x) {
  const Tensor a = abs(x);
  return where(a <= 8, sum_of(j1_near, inner_square(a)), oscillating(a, p1, q1, 1) / at_least(a, 8));
}
Tensor wide_j0(const Tensor& x);
Tensor wide_j1(const Tensor& x) {
  return with_slope(
      "bessel_j1", x, [](const Tensor& v) { return where(isinf(v), 0, v * j1_over_x(where(isinf(v), 1, v))); },
      [](const Tensor& v, const Tensor&) { return wide_j0(v) - j1_over_x(v); });
}
Tensor wide_j0(const Tensor& x) {
  const auto value = [](const Tensor& given) {
    const Tensor ends = isinf(given), a = abs(where(ends, 1, given));
    return where(ends, 0, where(a <= 8, sum_of(j0_near, inner_square(a)), oscillating(a, p0, q0, 0)));
  };
  return with_slope("bessel_j0", x, value, [](const Tensor& v, const Tensor&) { return -wide_j1(v); });
}

// ---- Bessel functions of the second kind, of x > 0: -infinity at 0, NaN below
Tensor second_kind(const Tensor& x, int order) {
  const Tensor inside = x > 0 && !isinf(x), a = where(inside, x, 1), near = at_most(a, 8), t = inner_square(near);
  const Tensor logarithm = (2 / std::numbers::pi) * log(0.5 * near);
  const Tensor inner =
      order == 0 ? logarithm * sum_of(j0_near, t) + sum_of(y0_rest, t)
                 : near * (logarithm * sum_of(j1_near, t) + sum_of(y1_rest, t)) - (2 / std::numbers::pi) / near;
  const Tensor outer = order == 0 ? oscillating(a, p0, q0, 0, true) : oscillating(a, p1, q1, 1, true);
  const Tensor ends = where(x == 0, -std::numeric_limits<double>::infinity(),
                            where(x > 0, zeros_like(x), std::numeric_limits<double>::quiet_NaN()));
  return where(inside, where(a <= 8, inner, outer), ends);
}
Tensor wide_y0(const Tensor& x);
Tensor wide_y1(const Tensor& x) {
  return with_slope(
      "bessel_y1", x, [](const Tensor& v) { return second_kind(v, 1); },
      [](const Tensor& v, const Tensor&) { return wide_y0(v) - wide_y1(v) / v; });
}
Tensor wide_y0(const Tensor& x) {
  return with_slope(
      "bessel_y0", x, [](const Tensor& v) { return second_kind(v, 0); },
      [](const Tensor& v, const Tensor&) { return -wide_y1(v); });
}

// ---- zeta
Tensor zeta_value(const Tensor& s, const Tensor& q) {
  constexpr int direct = 9;
  const Tensor inside = s > 1 && q > 0, p = where(inside, s, 2), base = where(inside, q, 1);
  const Tensor end = base + direct, power = pow(end, -p);
  Tensor total = end * power / (p - 1) + 0.5 * power;
  for (int k = 0; k < direct; ++k) total = total + pow(base + k, -p);
  // B_2j / (2j)! s (s + 1) ... (s + 2j - 2) end^(1 - 2j - s)
  const double bernoulli[] = {
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0};
  Tensor factor = p / end;
  for (int j = 0; j < 7; ++j) {
    total = total + bernoulli[j] * (factor * power);
    if (j < 6) factor = factor * ((p + (2 * j + 1)) / end) * ((p + (2 * j + 2)) / end);
  }
  return where(inside, total,
               where(s == 1, full_like(p, std::numeric_limits<double>::infinity()),
                     full_like(p, std::numeric_limits<double>::quiet_NaN())));
}
// The gradient is in q.
Tensor wide_zeta(const Tensor& s, const Tensor& q) {
  return with_slope(
      "zeta", q, [&](const Tensor& v) { return zeta_value(stop_gradient(s), v); },
      [s = stop_gradient(s)](const Tensor& v, const Tensor&) { return -s * wide_zeta(s + 1, v); });
}

// ---- the error function times exp(x^2). Shepherd and Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2)
// erfc(x)", 1981.
Tensor wide_erfcx(const Tensor& x) {
  const Tensor a = where(x < 0, -x, x), ends = isinf(a), b = where(ends, 1, a);  // not abs(): it has no slope at 0
  const Tensor right = where(ends, 0, sum_of(erfcx_series, (b - 3.75) / (b + 3.75)) / (1 + 2 * b));
  const Tensor low = minimum(x, 0);
  return where(x < 0, 2 * exp(low * low) - right, right);
}

// Phi^-1. M. Wichura, "Algorithm AS 241", 1988, seven digits; one step of Newton's method for f64.
Tensor ratio(const Tensor& r, std::vector<double> above, std::vector<double> below) {
  const auto horner = [&](const std::vector<double>& c) {
    Tensor v = full_like(r, c.back());
    for (size_t k = c.size() - 1; k-- > 0;) v = v * r + c[k];
    return v;
  };
  return horner(above) / horner(below);
}
Tensor quantile_value(const Tensor& p) {
  const Tensor q = p - 0.5, middle = abs(q) <= 0.425, safe = where(middle, q, 0);
  const Tensor centre = safe * ratio(0.180625 - safe * safe, {3.3871327179, 50.434271938, 159.29113202, 59.109374720},
                                     {1, 17.895169469, 78.757757664, 67.187563600});
  const Tensor tail = where(middle, 0.05, minimum(p, 1 - p)), r = sqrt(-log(where(tail > 0, tail, 0.05)));
  const Tensor near =
      ratio(r - 1.6, {1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103}, {1, 0.73700164250, 0.12021132975});
  const Tensor far =
      ratio(r - 5, {6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997}, {1, 0.24197894225, 0.012258202635});
  const Tensor side = where(r <= 5, near, far);
  Tensor x = where(middle, centre, where(q < 0, -side, side));
  if (p.dtype() == DType::f64) {
    const Tensor error = where(q < 0, 0.5 * erfc(-x * (1 / std::numbers::sqrt2)) - p,
                               (1 - p) - 0.5 * erfc(x * (1 / std::numbers::sqrt2)));
    x = x - error * (std::sqrt(2 * std::numbers::pi) * exp(0.5 * x * x));
  }
  const double infinity = std::numeric_limits<double>::infinity();
  return where(p > 0 && p < 1, x,
               where(eq(p, 0), -infinity,
                     where(eq(p, 1), full_like(p, infinity), full_like(p, std::numeric_limits<double>::quiet_NaN()))));
}

}  // namespace

#define HEDDLE_SPECIAL(name, f)        \
  Tensor name(TensorArg x) {           \
    const CallerScope scope(x.caller); \
    return in_wide(x.tensor, f);       \
  }
HEDDLE_SPECIAL(bessel_i0, wide_i0)
HEDDLE_SPECIAL(bessel_i0e, wide_i0e)
HEDDLE_SPECIAL(bessel_i1, wide_i1)
HEDDLE_SPECIAL(bessel_i1e, wide_i1e)
HEDDLE_SPECIAL(bessel_j0, wide_j0)
HEDDLE_SPECIAL(bessel_j1, wide_j1)
HEDDLE_SPECIAL(bessel_y0, wide_y0)
HEDDLE_SPECIAL(bessel_y1, wide_y1)
HEDDLE_SPECIAL(erfcx, wide_erfcx)
#undef HEDDLE_SPECIAL

Tensor polygamma(int64_t n, TensorArg x) {
  const CallerScope scope(x.caller);
  if (n < 0 || n > 30) throw ValueError(fmt::format("[polygamma] n is {}; it must be in [0, 30]", n));
  if (n == 0) return digamma(x.tensor);
  return in_wide(x.tensor, [n](const Tensor& v) {
    const double factorial = std::tgamma(static_cast<double>(n) + 1);
    return (n % 2 == 0 ? -factorial : factorial) * wide_zeta(full_like(v, static_cast<double>(n) + 1), v);
  });
}

Tensor zeta(TensorArg s, const Tensor& q) {
  const CallerScope scope(s.caller);
  build::check_device(s.tensor, q, "zeta");
  const Shape shape = broadcast_shapes(s.tensor.shape(), q.shape(), "zeta");
  const DType common = promote(s.tensor.dtype(), q.dtype()), t = is_float(common) ? common : DType::f32;
  return cast(wide_zeta(build::broadcast(build::widen(cast(s.tensor, t)), shape),
                        build::broadcast(build::widen(cast(q, t)), shape)),
              t);
}

Tensor multigammaln(TensorArg x, int64_t p) {
  const CallerScope scope(x.caller);
  if (p < 1 || p > 64) throw ValueError(fmt::format("[multigammaln] p is {}; it must be in [1, 64]", p));
  return in_wide(x.tensor, [p](const Tensor& v) {
    const double dimension = static_cast<double>(p);
    Tensor total = lgamma(v) + 0.25 * dimension * (dimension - 1) * std::log(std::numbers::pi);
    for (int64_t j = 1; j < p; ++j) total = total + lgamma(v - 0.5 * static_cast<double>(j));
    return total;
  });
}

Tensor ndtr(TensorArg x) {
  const CallerScope scope(x.caller);
  return in_wide(x.tensor, [](const Tensor& v) { return 0.5 * erfc(v * (-1 / std::numbers::sqrt2)); });
}
Tensor log_ndtr(TensorArg x) {
  const CallerScope scope(x.caller);
  return in_wide(x.tensor, [](const Tensor& v) {
    const Tensor low = v < -1, left = where(low, v, -1), right = where(low, 0, v);
    return where(low, log(0.5 * wide_erfcx(left * (-1 / std::numbers::sqrt2))) - 0.5 * left * left,
                 log1p(-0.5 * erfc(right * (1 / std::numbers::sqrt2))));
  });
}
Tensor ndtri(TensorArg x) {
  const CallerScope scope(x.caller);
  return in_wide(x.tensor, [](const Tensor& v) {
    return with_slope("ndtri", v, quantile_value, [](const Tensor& p, const Tensor&) {
      const Tensor y = ndtri(p);
      return std::sqrt(2 * std::numbers::pi) * exp(0.5 * y * y);
    });
  });
}

Tensor entr(TensorArg x) {
  const CallerScope scope(x.caller);
  const auto value = [](const Tensor& v) {
    const Tensor inside = v > 0, safe = where(inside, v, 1);
    return where(inside, -safe * log(safe),
                 where(eq(v, 0), 0, where(v < 0, -std::numeric_limits<double>::infinity(), v)));
  };
  return in_wide(x.tensor, [value](const Tensor& v) {
    return with_slope("entr", v, value, [](const Tensor& at, const Tensor&) { return -log(at) - 1; });
  });
}
Tensor xlog1py(TensorArg x, const Tensor& y) {
  const CallerScope scope(x.caller);
  build::check_device(x.tensor, y, "xlog1py");
  broadcast_shapes(x.tensor.shape(), y.shape(), "xlog1py");
  const Tensor a = build::as_float(x.tensor), b = build::as_float(y),
               none = eq(a, 0) && (b <= -1 || b == std::numeric_limits<double>::infinity());
  return where(none, 0, a * log1p(where(none, 1, b)));
}
Tensor logaddexp2(TensorArg x, const Tensor& y) {
  const CallerScope scope(x.caller);
  build::check_device(x.tensor, y, "logaddexp2");
  broadcast_shapes(x.tensor.shape(), y.shape(), "logaddexp2");
  const Tensor a = build::as_float(x.tensor), b = build::as_float(y);
  return logaddexp(a * std::numbers::ln2, b * std::numbers::ln2) * (1 / std::numbers::ln2);
}

}  // namespace heddle
