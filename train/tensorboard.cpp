#include "heddle/train/tensorboard.h"

#include <algorithm>

#include "heddle/core/base/path.h"
#include "heddle/io/read_file.h"
#include "heddle/train/feed.h"
#include "heddle/train/summaries.h"
#include "heddle/train/trainer.h"

namespace heddle::train {
namespace {

// Of the loss of a first batch. In evaluation mode: no random number is drawn, no statistics are updated.
std::vector<GraphVertex> graph_of(Trainer& t) {
  const std::vector<Tensor> batch = first_batch(t.task().training(), t.config(), t.device());
  if (batch.empty()) return {};
  nn::Module& model = t.task().model();
  const bool training = model.training();
  model.eval();
  const Tensor loss = t.task().loss(batch);
  model.train(training);
  return recorded_graph(loss, model.named_parameters());
}

std::string slashes(std::string name) {
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

}  // namespace

void TensorboardEvents::on_train_start(Trainer& t) {
  file_.text("config", t.step(), "```toml\n" + t.config().str() + "```");
  file_.graph(graph_of(t));
}

void TensorboardEvents::on_batch_end(Trainer& t) {
  const int64_t every = t.config().log.histograms_every;
  if (every == 0 || t.step() % every != 0) return;
  const nn::NamedTensors parameters = t.task().model().named_parameters();
  std::vector<Tensor> tensors;
  for (const auto& [name, parameter] : parameters) tensors.push_back(parameter);
  const std::vector<Tensor>& gradients = t.gradients();
  tensors.insert(tensors.end(), gradients.begin(), gradients.end());
  const std::vector<HistogramSummary> histograms = histograms_of(tensors);
  for (size_t i = 0; i < histograms.size(); ++i)
    file_.histogram(
        (i < parameters.size() ? "weights/" : "gradients/") + slashes(parameters[i % parameters.size()].first),
        t.step(), histograms[i]);
}

void TensorboardEvents::on_steps(Trainer& t, std::span<const StepRecord> steps) {
  for (const StepRecord& s : steps) {
    if (s.step % t.config().log.every != 0) continue;
    file_.scalar("train/loss", s.step, s.loss);
    file_.scalar("train/lr", s.step, s.lr);
    if (s.grad_norm) file_.scalar("train/grad_norm", s.step, *s.grad_norm);
    for (const auto& [name, value] : s.figures) file_.scalar("train/" + name, s.step, value);
    file_.scalar("train/samples_per_second", s.step, s.samples_per_second);
  }
}

void TensorboardEvents::evaluated(const Trainer& t, const Evaluation& e) {
  file_.scalar(e.split + "/loss", t.step(), e.loss);
  for (const auto& [name, value] : e.metrics) file_.scalar(e.split + "/" + name, t.step(), value);
}

void TensorboardEvents::on_sample(Trainer& t, const Generated& made) {
  if (!made.text.empty()) file_.text("sample", t.step(), "```\n" + made.text + "\n```");
  if (made.image_path.empty()) return;
  const std::string png = read_text_file((fs::path(run_folder_) / made.image_path).string(), "events");
  file_.image("sample", t.step(), made.image.shape.dim(1), made.image.shape.dim(2), made.image.shape.dim(0), png);
}

}  // namespace heddle::train
