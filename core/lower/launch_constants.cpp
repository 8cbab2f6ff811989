#include "heddle/core/lower/launch_constants.h"

#include <fmt/format.h>

#include <bit>
#include <utility>

namespace heddle {
namespace {

uint32_t bits_of(int64_t value) { return static_cast<uint32_t>(static_cast<int32_t>(value)); }

}  // namespace

std::string LaunchConstants::add(std::string name, ConstParam::Type type, uint32_t bits) {
  params_.push_back({std::move(name), type});
  values_.push_back(bits);
  return params_.back().name;
}

std::string LaunchConstants::integer(int64_t value) {
  if (joined_) {  // a name for each place: two numbers that are equal in one joined row may differ in the next
    values_.push_back(bits_of(value));
    return fmt::format("t_c{}", values_.size() - 1);
  }
  if (varying_) return named(value);
  if (value >= -1 && value <= 1) return value < 0 ? "(-1)" : std::to_string(value);
  if (const auto known = integers_.find(value); known != integers_.end()) return known->second;
  if (full()) return fmt::format("({})", value);
  const std::string name = fmt::format("t_c{}", integers_.size());
  integers_.emplace(value, name);
  return add(name, ConstParam::Type::i32, bits_of(value));
}

std::string LaunchConstants::named(int64_t value) {
  if (full()) {
    overflowed_ = true;
    return fmt::format("({})", value);
  }
  return add(fmt::format("t_number{}", params_.size()), ConstParam::Type::i32, bits_of(value));
}

std::string LaunchConstants::coefficient(int variable, int64_t value) {
  if (!varying_) return integer(value);
  const auto [entry, fresh] = coefficients_.try_emplace({variable, value});
  if (fresh) entry->second = named(value);
  return entry->second;
}

std::optional<std::string> LaunchConstants::real(float value) {
  if (full()) return std::nullopt;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  for (size_t i = 0; i < params_.size() && !varying_; ++i) {
    if (params_[i].type == ConstParam::Type::f32 && values_[i] == bits) return params_[i].name;
  }
  return add(fmt::format("t_f{}", params_.size()), ConstParam::Type::f32, bits);
}

std::string LaunchConstants::hidden_zero(bool negative) {
  const char* sign = negative ? "-" : "";
  if (joined_ || varying_) return fmt::format("({}CAST(float, {}))", sign, integer(0));
  const auto known = integers_.find(0);
  if (known != integers_.end()) return fmt::format("({}CAST(float, {}))", sign, known->second);
  if (integers_.size() >= limit_) return fmt::format("({}0.0f)", sign);
  const std::string name = fmt::format("t_c{}", integers_.size());
  integers_.emplace(0, name);
  return fmt::format("({}CAST(float, {}))", sign, add(name, ConstParam::Type::i32, 0));
}

void LaunchConstants::clear() {
  params_.clear();
  values_.clear();
  integers_.clear();
  coefficients_.clear();
  overflowed_ = false;
}

}  // namespace heddle
