#include "heddle/deploy/c_main.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/dialect/c_text.h"
#include "heddle/deploy/c_syntax.h"

namespace heddle {
namespace {

constexpr const char* head = R"(
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Largest difference of two arrays, and the largest value. Types are those of Heddle. */
typedef struct {
  double difference, largest;
  unsigned long count;
} comparison;

#define COMPARE(name, type, read)                                                      \
  static comparison name(const void* wanted, const void* found, size_t count) {         \
    const type* a = (const type*)wanted;                                                \
    const type* b = (const type*)found;                                                 \
    comparison c = {0, 0, 0};                                                           \
    size_t i;                                                                           \
    for (i = 0; i < count; ++i) {                                                       \
      double x = read(a[i]), y = read(b[i]), d = x > y ? x - y : y - x;                 \
      double size = x < 0 ? -x : x;                                                     \
      if (a[i] == b[i] || (x != x && y != y) || x == y) d = 0;                          \
      else ++c.count;                                                                   \
      if (!(d <= c.difference)) c.difference = d;                                       \
      if (size > c.largest && size - size == 0) c.largest = size;                       \
    }                                                                                   \
    return c;                                                                           \
  }
#define PLAIN(x) ((double)(x))
)";

constexpr const char* half_head = R"(
static double of_f16(unsigned short h) {
  int exponent = h >> 10 & 31;
  double value = h & 1023;
  if (exponent == 31) value = value > 0 ? 0.0 / zero : 1.0 / zero;
  else if (exponent > 0) value += 1024;
  for (; exponent > 1 && exponent < 31; --exponent) value *= 2;
  value /= 16777216.0;
  return h >> 15 ? -value : value;
}
)";

constexpr const char* bf16_head = R"(
static double of_bf16(unsigned short h) {
  union { uint32_t u; float f; } bits;
  bits.u = (uint32_t)h << 16;
  return bits.f;
}
)";

constexpr const char* timing = R"(
static int earlier(const void* a, const void* b) {
  double x = *(const double*)a, y = *(const double*)b;
  return x < y ? -1 : x > y;
}

/* Seconds of a run: enough of them that the clock can tell. */
static double seconds_of(void (*run)(void)) {
  long runs = 1;
  for (;; runs *= 2) {
    clock_t begin = clock();
    long i;
    double spent;
    for (i = 0; i < runs; ++i) run();
    spent = (double)(clock() - begin) / CLOCKS_PER_SEC;
    if (spent > 0.01 || runs > 100000000L) return spent / (double)runs;
  }
}

static void measure(const char* name, void (*run)(void), int rounds) {
  static double all[1000];
  int i;
  for (i = 0; i < rounds; ++i) all[i] = seconds_of(run);
  qsort(all, (size_t)rounds, sizeof all[0], earlier);
  printf("%s: median %.9f s, least %.9f s of %d rounds\n", name, all[rounds / 2], all[0], rounds);
}
)";

const char* comparer(DType dtype) {
  return dtype == DType::f16 ? "of_f16" : dtype == DType::bf16 ? "of_bf16" : "PLAIN";
}

std::string compare_name(DType dtype) {
  return fmt::format("compare_{}", dtype == DType::boolean ? "bool" : name_of(dtype));
}

bool uses(const CModel& model, DType dtype) {
  for (const CModel::Entry& entry : model.entries) {
    if (!entry.golden) continue;
    for (const Golden::Value& value : entry.golden->outputs) {
      if (value.dtype == dtype) return true;
    }
  }
  return false;
}

std::string comparisons(const CModel& model) {
  std::string text;
  if (uses(model, DType::f16)) text += std::string("static double zero = 0;\n") + half_head;
  if (uses(model, DType::bf16)) text += bf16_head;
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i8,
                            DType::u8, DType::boolean}) {
    if (uses(model, dtype))
      text += fmt::format("COMPARE({}, {}, {})\n", compare_name(dtype), c_type(dtype), comparer(dtype));
  }
  return text;
}

size_t count_of(const Golden::Value& value) { return value.bytes.size() / size_of(value.dtype); }

// Arrays of an entry, a function that runs it, and one that compares.
std::string entry_text(const CModel& model, const CModel::Entry& entry) {
  const std::string function = c_function(model, entry);
  std::string text, arguments, checks;
  const auto array = [&](const std::string& name, const Golden::Value& value) {
    text += fmt::format("static const {} {}[{}] = {};\n", c_word_type(size_of(value.dtype)), name,
                        std::max<size_t>(count_of(value), 1), c_elements(value.bytes, size_of(value.dtype)));
  };
  for (size_t i = 0; i < entry.golden->inputs.size(); ++i) {
    const std::string name = fmt::format("{}_given_{}", function, i);
    array(name, entry.golden->inputs[i]);
    arguments += fmt::format("{}(const {}*)(const void*){}", i > 0 ? ", " : "",
                             c_port_type(entry.golden->inputs[i].dtype), name);
  }
  const std::vector<std::string> names = c_ports(entry.image.outputs, "out");
  for (size_t i = 0; i < entry.golden->outputs.size(); ++i) {
    const Golden::Value& value = entry.golden->outputs[i];
    array(fmt::format("{}_wanted_{}", function, i), value);
    text += fmt::format("static {} {}_found_{}[{}];\n", c_port_type(value.dtype), function, i,
                        std::max<size_t>(count_of(value), 1));
    arguments += fmt::format("{}{}_found_{}", arguments.empty() ? "" : ", ", function, i);
    checks += fmt::format("  failed += report(\"{0} {1}\", {2}({0}_wanted_{3}, {0}_found_{3}, {4}), {5});\n", function,
                          names[i], compare_name(value.dtype), i, count_of(value), golden_tolerance(value.dtype));
  }
  text += fmt::format("static void call_{0}(void) {{ {0}({1}); }}\n", function, arguments);
  return text +
         fmt::format("static int check_{0}(void) {{\n  int failed = 0;\n  call_{0}();\n{1}  return failed;\n}}\n",
                     function, checks);
}

constexpr const char* report_text = R"(
static int report(const char* name, comparison c, double tolerance) {
  int failed = !(c.difference <= tolerance * c.largest);
  if (tolerance == 0) failed = c.count > 0;
  printf("%s: %lu differ, by at most %.3g where the largest is %.3g%s\n", name, c.count, c.difference, c.largest,
         failed ? ": WRONG" : "");
  return failed;
}

)";

}  // namespace

std::string c_main(const CModel& model) {
  std::string text = fmt::format(
      "/* {0}: compares golden vectors; {0} N also measures N rounds. Written by heddle compile. */\n#include "
      "\"{0}.h\"\n",
      model.name);
  std::string entries, checks, measures;
  for (const CModel::Entry& entry : model.entries) {
    if (!entry.golden) continue;
    const std::string function = c_function(model, entry);
    entries += entry_text(model, entry);
    checks += fmt::format("  failed += check_{}();\n", function);
    measures += fmt::format("  if (rounds > 0) measure(\"{0}\", call_{0}, rounds);\n", function);
  }
  if (entries.empty())
    return text + "#include <stdio.h>\n\nint main(void) {\n  puts(\"no golden vectors\");\n  return 0;\n}\n";
  text += std::string(head) + comparisons(model) + timing + report_text + entries;
  text += "\nint main(int count, char** arguments) {\n  int failed = 0, rounds = count > 1 ? atoi(arguments[1]) : 0;\n";
  text += "  if (rounds > 1000) rounds = 1000;\n" + checks + measures;
  return text + "  return failed > 0;\n}\n";
}

}  // namespace heddle
