// heddle generate where nothing is written: what a model makes of a text that is there.
//
// Errors: ValueError "[generate] ..." for texts that are too short, IoError for a file that cannot be written; a file
// appears whole or not at all. Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "heddle/core/device/context.h"
#include "heddle/nn/module.h"

namespace heddle::tools {

// Prints the perplexity of tokens in windows of `window`: each token given those before it in its window.
void print_perplexity(nn::Module& model, std::span<const int32_t> tokens, int64_t window, bool json,
                      DeviceContext& device);
// Writes the logits (tokens, vocabulary) of a text, f32, as a .npy file.
void write_logits(nn::Module& model, std::span<const int32_t> tokens, const std::string& path, bool json,
                  DeviceContext& device);

}  // namespace heddle::tools
