#include "heddle/nn/containers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/base/error.h"

namespace heddle::nn {

std::shared_ptr<detail::NamedModules> detail::no_modules() { return std::make_shared<NamedModules>(); }

void detail::fail_class(const Module& container, const std::string& name, const Module& part) {
  throw ValueError(
      fmt::format("[{}] part '{}' is a {}, not of the class that at() asks for", container.kind(), name, part.kind()));
}

ModuleList::ModuleList(const char* kind) : Module(kind) {}
size_t ModuleList::size() const { return modules_->size(); }
ModuleList::Iterator ModuleList::begin() const { return Iterator(modules_->begin()); }
ModuleList::Iterator ModuleList::end() const { return Iterator(modules_->end()); }

Module& ModuleList::operator[](int64_t index) const {
  const auto count = static_cast<int64_t>(size());
  if (index < -count || index >= count)
    throw ValueError(fmt::format("[{}] there is no part {} among {}", kind(), index, count));
  return *(*modules_)[static_cast<size_t>(index < 0 ? index + count : index)].second;
}

ModuleDict::ModuleDict() : Module("ModuleDict") {}
size_t ModuleDict::size() const { return modules_->size(); }
detail::NamedModules::const_iterator ModuleDict::begin() const { return modules_->begin(); }
detail::NamedModules::const_iterator ModuleDict::end() const { return modules_->end(); }

bool ModuleDict::contains(const std::string& key) const {
  return std::ranges::any_of(*modules_, [&](const auto& part) { return part.first == key; });
}

std::vector<std::string> ModuleDict::keys() const {
  std::vector<std::string> all;
  for (const auto& [key, module] : *modules_) all.push_back(key);
  return all;
}

Module& ModuleDict::operator[](const std::string& key) const {
  for (const auto& [name, module] : *modules_) {
    if (name == key) return *module;
  }
  throw ValueError(fmt::format("[ModuleDict] there is no part '{}'; there are {}", key, fmt::join(keys(), ", ")));
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (Module& layer : *this) y = layer(y);
  return y;
}

}  // namespace heddle::nn
