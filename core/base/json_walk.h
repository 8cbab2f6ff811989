// JsonWalk: a JSON text from its first byte to its last, without a tree in memory: for headers of files that programs
// without nlohmann's parser read (runtime/).
//
// Purpose: check() looks at the whole text; then a reader takes what it knows in the order of the text. Invariants: a
// text that passed check() is JSON in UTF-8, at most max_parse_depth deep, and no object has a name twice; taking
// values of it in their order cannot fail but by their kind. Errors: IoError "WHAT: not JSON: ...", "WHAT: the name
// 'x' appears twice". Thread safety: a walk belongs to its thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace heddle {

class JsonWalk {
 public:
  enum class Kind : uint8_t { object, list, text, other };
  // `what` says who reads and which file; both texts outlive the walk.
  JsonWalk(std::string_view text, std::string_view what) : text_(text), what_(what) {}
  // Of all of it, before anything else.
  static void check(std::string_view text, std::string_view what);

  Kind next() const;
  // Each is for a value of its kind. `each` takes one value; of an object it is called with its name.
  template <class F>
  void object(const F& each) {
    take('{');
    for (bool more = !try_take('}'); more; more = take_comma('}')) {
      const std::string name = text();
      take(':');
      each(name);
    }
  }
  template <class F>
  void list(const F& each) {
    take('[');
    for (bool more = !try_take(']'); more; more = take_comma(']')) each();
  }
  std::string text();
  // Any value, as it is written.
  std::string_view raw();
  // The whole number that such a text is; nothing for another one, and beyond 64 bits.
  static std::optional<uint64_t> whole(std::string_view raw);

 private:
  [[noreturn]] void fail(std::string_view expected) const;
  void skip_space();
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool try_take(char c);
  void take(char c);
  bool take_comma(char end);
  void skip_value();
  void skip_other();
  unsigned hex4();
  void append_escape(std::string& into);

  std::string_view text_, what_;
  size_t at_ = 0;
};

}  // namespace heddle
