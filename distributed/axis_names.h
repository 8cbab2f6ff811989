// AxisNames: names of axes of a mesh as an argument: "tp", or {"dp", "tp"}. Thread safety: plain value.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace heddle::distributed {

class AxisNames {
 public:
  AxisNames(const char* name) : names_{name} {}
  AxisNames(std::string name) : names_{std::move(name)} {}
  AxisNames(std::initializer_list<const char*> names) : names_(names.begin(), names.end()) {}
  AxisNames(std::vector<std::string> names) : names_(std::move(names)) {}
  const std::vector<std::string>& list() const { return names_; }

 private:
  std::vector<std::string> names_;
};

}  // namespace heddle::distributed
