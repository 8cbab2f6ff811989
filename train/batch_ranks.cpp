#include "heddle/train/batch_ranks.h"

namespace heddle::train {

nn::CutPlace batch_ranks(const Replicas& replicas) {
  const nn::CutPlace data = replicas.along_data(), experts = replicas.along("ep");
  return {.ranks = data.ranks * experts.ranks, .place = data.place * experts.ranks + experts.place};
}

}  // namespace heddle::train
