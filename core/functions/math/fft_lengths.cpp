#include "heddle/core/functions/math/fft_lengths.h"

#include <algorithm>
#include <bit>
#include <map>

#include "heddle/core/base/of_this_thread.h"

namespace heddle::build {
namespace {

constexpr int64_t width = 16;  // lines that a lane of a CPU transforms at once

// Times that `factor` divides n, which is divided by it.
int64_t take(int64_t& n, int64_t factor) {
  int64_t times = 0;
  for (; n % factor == 0; n /= factor) ++times;
  return times;
}

// Cost of a length of factors up to 7: elements times passes, of eights at most, one more for reading and writing.
int64_t cost(int64_t n) {
  int64_t rest = n;
  const int64_t twos = take(rest, 2), odd = take(rest, 3) + take(rest, 5) + take(rest, 7);
  return n * (1 + (twos + 2) / 3 + odd);
}

constexpr int64_t longest_side = 512;

// Passes of transforms of n elements, and one for what comes before and after, as often as 16 of `count` are begun.
double side_cost(int64_t n, int64_t count) {
  const Passes p = passes_of(n, false);
  int64_t passes = 1;
  for (uint32_t rest = p.counts; rest > 0; rest >>= 4) passes += rest & 15;
  for (uint32_t rest = p.primes; rest > 0; rest >>= 5) passes += 3;
  return static_cast<double>(passes * ((count + width - 1) / width)) / static_cast<double>(count);
}

int64_t find_column(int64_t n) {
  if (n < width * width || !is_smooth(n)) return 0;
  int64_t best = 0;
  double least = 0;
  for (int64_t tall = width; tall <= std::min(longest_side, n / width); ++tall) {
    const int64_t wide = n / tall;
    if (n % tall != 0 || wide > longest_side || (n % 2 == 0 && wide % 2 != 0)) continue;
    const double time = side_cost(tall, wide) + side_cost(wide, tall);
    // Of equal ones the squarest, whose columns take the least of the first cache.
    if (best != 0 && (tall * tall <= n ? time > least * 1.0001 : time >= least * 0.9999)) continue;
    best = tall;
    least = time;
  }
  return best;
}

}  // namespace

int64_t smallest_factor(int64_t n) {
  for (int64_t r = 2; r * r <= n; ++r) {
    if (n % r == 0) return r;
  }
  return n;
}

bool is_smooth(int64_t n) {
  for (int64_t r = 2; r <= largest_radix; ++r) take(n, r);
  return n == 1;
}

int64_t convolution_length(int64_t n) {
  const int64_t least = 2 * n - 1, most = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least)));
  int64_t best = most;
  for (int64_t sevens = 1; sevens <= most; sevens *= 7) {
    for (int64_t fives = sevens; fives <= most; fives *= 5) {
      for (int64_t threes = fives; threes <= most; threes *= 3) {
        int64_t m = threes;
        while (m < least) m *= 2;
        if (m <= most && cost(m) < cost(best)) best = m;
      }
    }
  }
  return best;
}

int64_t first_of_two_passes(int64_t n, int64_t longest) {
  int64_t best = 0;
  bool whole = false;
  for (int64_t r = width; r * r <= n && r <= longest; ++r) {
    if (n % r != 0) continue;
    const bool both = r % width == 0 && n / r % width == 0;
    if (both || !whole) best = r;
    whole = whole || both;
  }
  return best;
}

int64_t column_of(int64_t n) {
  struct Known : std::map<int64_t, int64_t> {};
  Known& known = of_this_thread<Known>();
  const auto at = known.find(n);
  return at != known.end() ? at->second : known[n] = find_column(n);
}

Passes passes_of(int64_t n, bool sixteens) {
  Passes p;
  const auto note = [&](int place, int64_t count) {
    p.counts |= static_cast<uint32_t>(count) << (4 * place);
    if (count > 0) p.radices |= 1u << place;
  };
  const int64_t twos = take(n, 2);
  if (sixteens) {  // as few passes as there can be, with eights instead of sixteens for what is missing
    const int64_t passes = (twos + 3) / 4, missing = 4 * passes - twos;
    const int64_t fours = twos == 5 || twos == 2 ? 1 : 0, single = twos == 1 ? 1 : 0;
    const int64_t eights = twos <= 2 ? 0 : twos == 5 ? 1 : missing;
    note(0, passes - eights - fours - single);
    note(1, eights);
    note(2, fours);
    note(3, single);
  } else {
    const int64_t fours = twos % 3 == 2 ? 1 : twos % 3 == 1 && twos > 1 ? 2 : 0;
    note(1, (twos - 2 * fours) / 3);
    note(2, fours);
    note(3, twos == 1 ? 1 : 0);
  }
  note(4, take(n, 3));
  note(5, take(n, 5));
  note(6, take(n, 7));
  int place = 0;
  for (int64_t r = 11; r <= largest_radix; ++r) {
    for (int64_t times = take(n, r); times > 0; --times) p.primes |= static_cast<uint32_t>(r) << (5 * place++);
  }
  if (p.primes != 0) p.radices |= 1u << 7;
  return p;
}

}  // namespace heddle::build
