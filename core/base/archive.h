// Archive: values to bytes and back, one after the other. A type's members are named once, for both directions.
//
//   template <class Archive> void visit(Archive& a, Point& p) { a(p.x, p.y); }
//   ArchiveWriter out;  visit(out, point);  keep(out.bytes);
//   ArchiveReader in(bytes);  visit(in, point);  if (!in.whole()) ...
//
// Invariants: numbers as this machine holds them (little-endian everywhere that Heddle runs), lists and texts behind
// their length. A reader believes nothing: a length beyond the bytes that are left, a bool or an enum that is none ends
// it, and whole() says so; what was read until then is valid as C++, not as meaning. Thread safety: as any value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace heddle {

// An enum that is archived says how many values it has: template <> constexpr int archived_values<Access> = 3;
template <class E>
constexpr int archived_values = 0;

class ArchiveWriter {
 public:
  static constexpr bool reading = false;
  std::vector<uint8_t> bytes;

  template <class... T>
  void operator()(T&... values) {
    (put(values), ...);
  }
  template <class T, class F>
  void list(std::vector<T>& values, const F& each) {
    length(values.size());
    for (T& value : values) each(value);
  }
  template <class T>
  void numbers(std::vector<T>& values) {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    length(values.size());
    append(values.data(), values.size() * sizeof(T));
  }
  void fail() {}

 private:
  template <class T>
  void put(T& value) {
    static_assert(std::is_arithmetic_v<T> || archived_values<T> > 0);
    append(&value, sizeof(value));
  }
  void put(std::string& text) {
    length(text.size());
    append(text.data(), text.size());
  }
  void length(size_t n) {
    const auto count = static_cast<uint64_t>(n);
    append(&count, sizeof(count));
  }
  void append(const void* data, size_t size) {
    const auto* from = static_cast<const uint8_t*>(data);
    bytes.insert(bytes.end(), from, from + size);
  }
};

class ArchiveReader {
 public:
  static constexpr bool reading = true;
  explicit ArchiveReader(std::span<const uint8_t> bytes) : left_(bytes) {}

  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  template <class T, class F>
  void list(std::vector<T>& values, const F& each) {
    values.clear();
    for (size_t count = length(1); count > 0 && !failed_; --count) each(values.emplace_back());
  }
  template <class T>
  void numbers(std::vector<T>& values) {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    values.resize(length(sizeof(T)));
    take(values.data(), values.size() * sizeof(T));
  }
  // What was read cannot be: nothing behind it is read.
  void fail() {
    failed_ = true;
    left_ = {};
  }
  // Whether all went well and nothing is left.
  bool whole() const { return !failed_ && left_.empty(); }

 private:
  template <class T>
  void get(T& value) {
    if constexpr (std::is_enum_v<T> || std::is_same_v<T, bool>) {
      // Another number than its own would be undefined behaviour.
      constexpr int count = std::is_same_v<T, bool> ? 2 : archived_values<T>;
      static_assert(count > 0 && sizeof(T) == 1);
      uint8_t number = 0;
      take(&number, 1);
      if (number >= count) return fail();
      value = static_cast<T>(number);
    } else {
      static_assert(std::is_arithmetic_v<T>);
      take(&value, sizeof(value));
    }
  }
  void get(std::string& text) {
    text.resize(length(1));
    take(text.data(), text.size());
  }
  // Of elements that take `least` bytes or more each.
  size_t length(size_t least) {
    uint64_t count = 0;
    take(&count, sizeof(count));
    if (count > left_.size() / least) fail();
    return failed_ ? 0 : static_cast<size_t>(count);
  }
  void take(void* to, size_t size) {
    if (size > left_.size()) return fail();
    if (size > 0) std::memcpy(to, left_.data(), size);
    left_ = left_.subspan(size);
  }

  std::span<const uint8_t> left_;
  bool failed_ = false;
};

}  // namespace heddle
