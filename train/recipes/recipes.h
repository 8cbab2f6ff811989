// The recipes, one function each, for train/recipe.cpp, and which options they refuse.
#pragma once

#include <string>
#include <vector>

#include "heddle/train/recipe.h"

namespace heddle::train {

Recipe mnist_mlp();
Recipe mnist_cnn();
Recipe cifar_resnet();
Recipe image_classifier();
Recipe table();
Recipe char_gpt();
Recipe char_lstm();
Recipe gpt2();
Recipe vae();
Recipe mail_sorter();
Recipe finetune();

// Options of data of the user's own, which other recipes refuse.
inline std::vector<std::string> own_image_options() {
  return {"data.target", "data.image_column", "data.image_size", "data.skip_broken"};
}
inline std::vector<std::string> own_data_options() {
  std::vector<std::string> all = own_image_options();
  all.push_back("data.task");
  return all;
}
inline std::vector<std::string> joined(std::vector<std::string> some, const std::vector<std::string>& more) {
  some.insert(some.end(), more.begin(), more.end());
  return some;
}

}  // namespace heddle::train
