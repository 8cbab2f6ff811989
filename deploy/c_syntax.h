// Words of C for a model that is written as C99. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/contract/kernel_source.h"
#include "heddle/deploy/c_model.h"

namespace heddle {

// As NAME.h has it: "int8_t"; f16 and bf16 are their bits, bool a byte.
std::string_view c_port_type(DType dtype);
// "uint8_t", "uint32_t": that many bytes.
std::string_view c_word_type(size_t bytes);
// "{0x1u, ...}": elements of so many bytes as numbers, which mean the same on every machine.
std::string c_elements(std::span<const uint8_t> bytes, size_t size);
// A constant of a launch, from its 32 bits.
std::string c_constant(ConstParam::Type type, uint32_t word);
std::string_view c_constant_type(ConstParam::Type type);

// Of a bucket: "net_run", "net_run_N_8".
std::string c_function(const CModel& model, const CModel::Entry& entry);
// "in_x", "out_y"; different within a list.
std::vector<std::string> c_ports(const std::vector<ModelImage::Port>& ports, std::string_view prefix);
// "void net_run(const float* in_x, float* out_y)".
std::string c_prototype(const CModel& model, const CModel::Entry& entry);

}  // namespace heddle
