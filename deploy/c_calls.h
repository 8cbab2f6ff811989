// The calls of a model that is written as C99: launches as calls of kernels over static memory.
//
// Purpose: what a launcher binds at run time (core/run/commands.h) is bound here to names: parameters of the function,
// static arrays, constant arrays. Invariants: equal kernels and weights of several buckets stand once; buckets share
// the arena, since one run is over when the next begins. Thread safety: none; what is written is for one thread too.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/contract/kernel_source.h"
#include "heddle/deploy/c_model.h"

namespace heddle {

struct CKernel {
  const KernelSource* source = nullptr;
  std::string function;
};

class CCalls {
 public:
  // ValueError where it would take more than a hundred thousand calls.
  explicit CCalls(const CModel& model);
  const std::vector<CKernel>& kernels() const { return kernels_; }
  // NAME.h: for users.
  std::string header() const;
  // NAME.c: static memory and functions.
  std::string source() const;
  // NAME_data.h: kernels and weights, for NAME.c.
  std::string declarations() const;
  std::string weights() const;

 private:
  // What memory is called in C.
  struct Symbol {
    std::string text;
    int weight = -1;
    uint64_t at = 0;  // where it begins in the buffer
  };
  using Symbols = std::map<uint64_t, Symbol>;  // by BufferId
  struct Weight {
    uint64_t offset = 0, bytes = 0;
    size_t element = 0;  // bytes of one, as the first kernel reads it; 0: none does
  };

  void add(const CModel::Entry& entry, const std::string& suffix);
  // The function that computes what depends on weights alone; `inputs` get its results.
  void add_once(const GraphImage& once, const std::string& suffix, std::vector<Symbol>& inputs);
  std::string calls(const GraphImage& image, const std::vector<Symbol>& inputs, const std::vector<Symbol>& own,
                    const std::string& host, const std::string& suffix);
  std::string call(const GraphImage& image, const Dispatch& dispatch, const Symbols& symbols);
  std::string address(const Binding& binding, DType dtype, bool written, const Symbols& symbols);
  std::string results(const CModel::Entry& entry, const std::vector<Symbol>& inputs, const std::vector<Symbol>& own);
  std::vector<Symbol> inputs_of(const CModel::Entry& entry);
  std::vector<Symbol> own_of(const CModel::Entry& entry, const std::string& suffix);
  Symbol memory(const std::string& name, uint64_t bytes);
  const CKernel& kernel_of(const KernelSource& source);
  std::string weight_name(int weight) const;

  const CModel& model_;
  std::vector<CKernel> kernels_;
  std::map<uint64_t, size_t> kernel_at_;  // by hash
  std::vector<Weight> weights_;
  std::vector<uint64_t> arena_bytes_;
  std::string statics_, functions_;
  uint64_t memory_bytes_ = 0;
  size_t count_ = 0;
};

}  // namespace heddle
