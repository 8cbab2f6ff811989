// Tensors and recorded graphs as what an event file shows (io/event_file.h).
//
// Errors: as the functions used. Thread safety: as for the tensors passed.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/graph/tensor.h"
#include "heddle/io/event_file.h"

namespace heddle::train {

// Of the finite elements of each tensor, in `parts` equal parts between the least and the largest; counted on their
// device in one step, a few numbers are read. Observes.
std::vector<HistogramSummary> histograms_of(std::span<const Tensor> tensors, int64_t parts = 30);

// What was recorded to compute `result`, down to values that exist: one vertex for each node. Vertices of `leaves`
// (e.g. a model's named parameters) have these names, with '/' for '.'; others are called after the line of the program
// that recorded them and their op, so that TensorBoard folds what one line made.
std::vector<GraphVertex> recorded_graph(const Tensor& result,
                                        const std::vector<std::pair<std::string, Tensor>>& leaves = {});

}  // namespace heddle::train
