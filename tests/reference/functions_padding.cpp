// Padding with what is there.
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

PadMode mode(const Arguments& a) {
  const std::string name = a.text("mode");
  return name == "reflect" ? PadMode::reflect : name == "replicate" ? PadMode::replicate : PadMode::circular;
}

}  // namespace

void add_padding(Functions& t) {
  t["pad"] = one([plain = t.at("pad")](Inputs in, const Arguments& a) {
    if (!a.has("mode")) return plain(in, a)[0];
    std::vector<std::pair<int64_t, int64_t>> amounts;
    for (const auto& pair : a.raw("amounts")) amounts.emplace_back(pair[0], pair[1]);
    return pad(in[0], amounts, mode(a));
  });
}

}  // namespace heddle::tests
