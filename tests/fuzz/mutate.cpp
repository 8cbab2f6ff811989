#include "tests/fuzz/mutate.h"

#include <algorithm>
#include <array>

namespace heddle::fuzz {
namespace {

constexpr size_t most_bytes = size_t{1} << 16;

// splitmix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  }
  size_t below(size_t n) { return n == 0 ? 0 : static_cast<size_t>(next() % n); }

 private:
  uint64_t state_;
};

std::string number_text(Random& random) {
  constexpr std::array<std::string_view, 14> numbers = {"0",
                                                        "-1",
                                                        "1",
                                                        "255",
                                                        "65536",
                                                        "2147483647",
                                                        "2147483648",
                                                        "4294967295",
                                                        "9223372036854775807",
                                                        "-9223372036854775808",
                                                        "18446744073709551616",
                                                        "1e309",
                                                        "nan",
                                                        "0.5"};
  return std::string(numbers[random.below(numbers.size())]);
}

// Writes 1, 2, 4 or 8 bytes that counts and offsets are made of.
void set_extreme(std::string& text, Random& random) {
  constexpr std::array<uint64_t, 8> numbers = {
      0, 1, 0x7f, 0x7fffffff, 0xffffffff, 0x7fffffffffffffff, 0xffffffffffffffff, 0x100000000};
  const size_t width = size_t{1} << random.below(4);
  if (text.size() < width) return;
  const size_t at = random.below(text.size() - width + 1);
  uint64_t value = numbers[random.below(numbers.size())] + (random.below(3) == 0 ? random.below(64) : 0);
  for (size_t i = 0; i < width; ++i, value >>= 8) text[at + i] = static_cast<char>(value);
}

// Another number where digits stand.
void replace_number(std::string& text, Random& random) {
  const size_t from = text.find_first_of("0123456789", random.below(text.size() + 1));
  if (from == std::string::npos) return;
  const size_t end = std::min(text.find_first_not_of("0123456789.", from), text.size());
  text.replace(from, end - from, number_text(random));
}

void mutate_once(std::string& text, const Target& target, const std::vector<std::string>& seeds, Random& random) {
  const size_t at = random.below(text.size() + 1), length = random.below(random.below(4) == 0 ? 4096 : 16);
  const auto word = [&]() -> std::string {
    return target.words.empty() || random.below(8) == 0 ? std::string(1, static_cast<char>(random.next()))
                                                        : std::string(target.words[random.below(target.words.size())]);
  };
  switch (random.below(11)) {
    case 0:
    case 1:
      if (at < text.size()) text[at] = static_cast<char>(text[at] ^ 1 << random.below(8));
      break;
    case 2:
      if (at < text.size()) text[at] = static_cast<char>(random.next());
      break;
    case 3:
      text.erase(at, length);
      break;
    case 4:
      text.insert(at, word());
      break;
    case 5: {
      const std::string again = text.substr(at, length);
      text.insert(random.below(text.size() + 1), again);
      break;
    }
    case 6:
      text.resize(at);
      break;
    case 7:
      set_extreme(text, random);
      break;
    case 8:
      replace_number(text, random);
      break;
    case 9: {  // the head of this, the tail of another
      const std::string& other = seeds[random.below(seeds.size())];
      text = text.substr(0, at) + other.substr(random.below(other.size() + 1));
      break;
    }
    default: {  // many times the same
      const std::string one = word();
      const size_t times = size_t{1} << random.below(13);
      std::string all;
      for (size_t i = 0; i < times && all.size() < most_bytes; ++i) all += one;
      text.insert(at, all);
    }
  }
  if (text.size() > most_bytes) text.resize(most_bytes);
}

}  // namespace

std::string input_of(const Target& target, const std::vector<std::string>& seeds, uint64_t number) {
  if (number < seeds.size()) return seeds[number];
  uint64_t named = 0xcbf29ce484222325u;
  for (const char c : target.name) named = (named ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  Random random(named ^ number);
  std::string text = seeds[random.below(seeds.size())];
  for (size_t left = size_t{1} << random.below(4); left > 0; --left) mutate_once(text, target, seeds, random);
  return text;
}

}  // namespace heddle::fuzz
