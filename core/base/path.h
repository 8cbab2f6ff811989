// std::filesystem with narrow texts that are UTF-8 on every system, where the standard's own are what the system's code
// page says. All of Heddle but its tests names files by it.
//
// Invariants: texts have / between folders, which Windows takes too: what a run writes is alike on every system.
// Errors: a text that is not UTF-8 throws std::filesystem::filesystem_error where the system's paths are not bytes.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace heddle::fs {

class path : public std::filesystem::path {
  using Base = std::filesystem::path;

 public:
  path() = default;
  path(const Base& other) : Base(other) {}
  path(Base&& other) : Base(std::move(other)) {}
  template <std::convertible_to<std::string_view> Text>
  path(const Text& utf8) : Base(units_of(utf8)) {}

  std::string string() const {
    const std::u8string text = generic_u8string();
    return {text.begin(), text.end()};
  }
  operator std::string() const { return string(); }
  path parent_path() const { return Base::parent_path(); }
  path filename() const { return Base::filename(); }
  path extension() const { return Base::extension(); }
  path lexically_normal() const { return Base::lexically_normal(); }
  path lexically_relative(const path& folder) const { return Base::lexically_relative(folder); }
  path& operator+=(std::string_view utf8) {
    Base::operator+=(units_of(utf8));
    return *this;
  }
  friend path operator/(const path& folder, const path& name) {
    return static_cast<const Base&>(folder) / static_cast<const Base&>(name);
  }

 private:
  static std::u8string units_of(std::string_view utf8) { return {utf8.begin(), utf8.end()}; }
};

using std::filesystem::directory_entry;
using std::filesystem::directory_iterator;
using std::filesystem::file_type;
using std::filesystem::filesystem_error;

inline bool exists(const path& file) { return std::filesystem::exists(file); }
inline bool exists(const path& file, std::error_code& code) { return std::filesystem::exists(file, code); }
inline bool is_directory(const path& file) { return std::filesystem::is_directory(file); }
inline bool is_directory(const path& file, std::error_code& code) { return std::filesystem::is_directory(file, code); }
inline bool is_regular_file(const path& file, std::error_code& code) {
  return std::filesystem::is_regular_file(file, code);
}
inline std::filesystem::file_status status(const path& file, std::error_code& code) {
  return std::filesystem::status(file, code);
}
inline uintmax_t file_size(const path& file) { return std::filesystem::file_size(file); }
inline uintmax_t file_size(const path& file, std::error_code& code) { return std::filesystem::file_size(file, code); }
inline auto last_write_time(const path& file) { return std::filesystem::last_write_time(file); }
inline path canonical(const path& file, std::error_code& code) { return std::filesystem::canonical(file, code); }
inline path temp_directory_path() { return std::filesystem::temp_directory_path(); }
inline bool create_directories(const path& folder, std::error_code& code) {
  return std::filesystem::create_directories(folder, code);
}
inline bool remove(const path& file, std::error_code& code) { return std::filesystem::remove(file, code); }
inline uintmax_t remove_all(const path& file, std::error_code& code) { return std::filesystem::remove_all(file, code); }

}  // namespace heddle::fs
