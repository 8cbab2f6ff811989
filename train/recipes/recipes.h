// The recipes, one function each, for train/recipe.cpp.
#pragma once

#include "heddle/train/recipe.h"

namespace heddle::train {

Recipe mnist_mlp();
Recipe mnist_cnn();
Recipe cifar_resnet();
Recipe char_gpt();
Recipe char_lstm();
Recipe gpt2();
Recipe vae();
Recipe mail_sorter();

}  // namespace heddle::train
