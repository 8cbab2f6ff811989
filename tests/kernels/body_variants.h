// The bodies of shaders/ in every schedule and with many types: what tests compile for each target.
// Thread safety: pure.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

struct BodyVariant {
  std::string body;
  KernelFile::Options options;

  std::string label() const;
  KernelSource source() const { return KernelFile::builtin(body).instantiate(options); }
};

// With vectors of `vw` floats where a schedule has vectors.
std::vector<BodyVariant> body_variants(int64_t vw);
// Products by matrix units: schedule 5 for each type, as it is laid out row by row and column by column.
std::vector<BodyVariant> unit_variants(int64_t lanes);

}  // namespace heddle
