// The base beside which adapters stand, by itself. Thread safety: none.
#pragma once

#include <optional>

#include "heddle/nn/lora.h"

namespace heddle::train {

// While it lives, the network is the base alone.
class WithoutAdapters {
 public:
  explicit WithoutAdapters(std::optional<nn::Lora>& adapters) : adapters_(adapters) {
    if (adapters_) adapters_->enable(false);
  }
  ~WithoutAdapters() {
    if (adapters_) adapters_->enable(true);
  }
  WithoutAdapters(const WithoutAdapters&) = delete;
  WithoutAdapters& operator=(const WithoutAdapters&) = delete;

 private:
  std::optional<nn::Lora>& adapters_;
};

}  // namespace heddle::train
