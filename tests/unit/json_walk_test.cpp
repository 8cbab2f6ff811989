// JsonWalk takes and refuses what nlohmann's parser does.
#include "heddle/core/base/json_walk.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "tests/support/expect_error.h"

namespace heddle {
namespace {

bool is_taken(const std::string& text) {
  try {
    JsonWalk::check(text, "[test]");
    return true;
  } catch (const IoError&) {
    return false;
  }
}

bool nlohmann_takes(const std::string& text) {
  try {
    parse_unique_json<nlohmann::json>(text, "[test]");
    return true;
  } catch (const IoError&) {
    return false;
  }
}

const std::vector<std::string>& seeds() {
  static const std::vector<std::string> texts = {
      R"({"a": [1, -2.5e+3, true, null], "b": {"c": "d\n\u00e4\ud83d\ude00", "e": 0}})",
      R"( [ "", "\"\\\/\b\f\n\r\t", 0.25, 1E9, false ] )", "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"",
      R"({"name": "w", "bytes": 18446744073709551615, "offset": 0})"};
  return texts;
}

TEST(JsonWalk, TakesWhatOthersTake) {
  for (const std::string& text : seeds()) EXPECT_TRUE(is_taken(text)) << text;
  for (const char* text : {"",
                           "{",
                           "[1,]",
                           "{\"a\":1,}",
                           "{\"a\" 1}",
                           "01",
                           "1.",
                           ".5",
                           "+1",
                           "1e",
                           "nan",
                           "tru",
                           "\"a",
                           "\"\\x\"",
                           "\"\\u12\"",
                           "\"\\ud800\"",
                           "\"\\udc00\"",
                           "\"\n\"",
                           "\"\xff\"",
                           "\"\xc0\x80\"",
                           "\"\xed\xa0\x80\"",
                           "1 2",
                           "{\"a\":1,\"a\":2}",
                           "[[1]",
                           "\xef\xbb\xbf"})
    EXPECT_FALSE(is_taken(text)) << text;
}

TEST(JsonWalk, MutatedTextsAreJudgedAlike) {
  std::mt19937 random(3);
  size_t taken = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string text = seeds()[random() % seeds().size()];
    for (unsigned changes = 1 + random() % 2; changes > 0; --changes) {
      const size_t at = random() % text.size();
      const char with = random() % 2 == 0 ? "{}[]\",:\\u0e+-. 19tfn"[random() % 21] : static_cast<char>(random());
      random() % 3 == 0 ? text.erase(at, 1) : random() % 2 == 0 ? text.insert(at, 1, with) : (text[at] = with, text);
      if (text.empty()) text = " ";
    }
    // A mark of byte order, which nlohmann skips, and names without a letter, of which parse_unique_json() takes two.
    if (text.starts_with("\xef\xbb\xbf") || text.find("\"\"") != std::string::npos) continue;
    // Numbers beyond a double, which nlohmann's parser refuses.
    if (std::regex_search(text, std::regex("[eE][+]?[0-9]{3}"))) continue;
    const bool wanted = nlohmann_takes(text);
    taken += wanted;
    ASSERT_EQ(is_taken(text), wanted) << text;
  }
  EXPECT_GT(taken, 1000u);
}

TEST(JsonWalk, GivesValuesInTheirOrder) {
  JsonWalk walk(R"({"a": "x\u00e4", "n": 12, "deep": {"b": [1, 2]}, "l": ["p", 4]})", "[test]");
  std::vector<std::string> seen;
  walk.object([&](const std::string& name) {
    seen.push_back(name);
    if (walk.next() == JsonWalk::Kind::text)
      seen.push_back(walk.text());
    else if (walk.next() == JsonWalk::Kind::list)
      walk.list([&] { seen.emplace_back(walk.raw()); });
    else
      seen.emplace_back(walk.raw());
  });
  EXPECT_EQ(seen,
            (std::vector<std::string>{"a", "x\xc3\xa4", "n", "12", "deep", R"({"b": [1, 2]})", "l", "\"p\"", "4"}));
  EXPECT_EQ(JsonWalk::whole("18446744073709551615"), ~uint64_t{0});
  for (const char* text : {"18446744073709551616", "-1", "5.0", "1e3", "true", ""})
    EXPECT_EQ(JsonWalk::whole(text), std::nullopt) << text;
}

TEST(JsonWalk, SaysWhere) {
  tests::expect_error<IoError>([] { JsonWalk::check("{\"a\": }", "[who] file"); },
                               {"[who] file: not JSON: byte 6: expected a value"});
  tests::expect_error<IoError>([] { JsonWalk::check(std::string(200, '['), "[who] file"); }, {"more than 100 deep"});
}

}  // namespace
}  // namespace heddle
