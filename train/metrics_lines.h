// MetricsLines: a run as JSON, one object a line: what metrics.jsonl holds and `heddle train --json` prints.
//
//   {"event":"start","recipe":..,"device":..,"parameters":n,"step":n,"steps":n}
//   {"event":"step","step":n,"epoch":x,"loss":..,"lr":..,"grad_norm":..|null,"samples_per_second":..,"loss_scale":..,"skipped":n,<figures
//   of the task>,"tokens_per_second":..,"seconds":..}
//   {"event":"eval","step":n,"split":"validation"|"test","loss":..,"examples":n,"metrics":{..},"confusion":[[..]],"curve":[[threshold,coverage,risk],..],"seconds":..}
//   {"event":"sample","step":n,"text":..|"image":"samples/step-n.png"}   {"event":"checkpoint","step":n,"path":..}
//   {"event":"loader","epoch":n,"fetch":s,"preprocess":s,"copy":s,"compute":s,"idle":s,"starved":s,"bottleneck":"compute"|"fetch"|"preprocess"|"copy"|"host"}
//     (seconds since the process began, of train/throughput.h)
//   {"event":"done"|"interrupted","stopped":true,"step":n,"seconds":..,"median_step_ms":..,"kernels_per_step":..,"peak_device_bytes":..,"<split>_loss":..,"<split>_<metric>":..}
//
// stopped: before the last step, by Trainer::stop(). loss_scale, skipped, tokens_per_second, confusion and curve are
// absent where there are none; numbers that are not finite are null. Thread safety: none.
#pragma once

#include <functional>
#include <string>

#include "heddle/train/callback.h"

namespace heddle::train {

class MetricsLines final : public Callback {
 public:
  // `sink` gets each line, without its end.
  explicit MetricsLines(std::function<void(const std::string& line)> sink) : sink_(std::move(sink)) {}
  void on_train_start(Trainer& trainer) override;
  void on_steps(Trainer& trainer, std::span<const StepRecord> steps) override;
  void on_evaluate(Trainer& trainer, const Evaluation& evaluation) override { evaluated(trainer, evaluation); }
  void on_test(Trainer& trainer, const Evaluation& evaluation) override { evaluated(trainer, evaluation); }
  void on_sample(Trainer& trainer, const Generated& made) override;
  void on_checkpoint(Trainer& trainer, const std::string& path) override;
  void on_straggler(Trainer& trainer, const Straggler& straggler) override;
  void on_shares(Trainer& trainer, const std::vector<int64_t>& examples) override;
  void on_lost_ranks(Trainer& trainer, const LostRanks& lost) override;
  void on_epoch_end(Trainer& trainer) override;
  void on_train_end(Trainer& trainer, Outcome outcome) override;

 private:
  void evaluated(Trainer& trainer, const Evaluation& evaluation);

  std::function<void(const std::string&)> sink_;
};

}  // namespace heddle::train
