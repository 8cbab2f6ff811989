// The recipes, one function each, for train/recipe.cpp.
#pragma once

#include "train/recipe.h"

namespace heddle::train {

Recipe mnist_mlp();
Recipe mnist_cnn();

}  // namespace heddle::train
