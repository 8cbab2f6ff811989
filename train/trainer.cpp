#include "heddle/train/trainer.h"

#include <algorithm>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/median.h"
#include "heddle/train/trainer_state.h"

namespace heddle::train {

Trainer::Trainer(Task& task, const Config& config, DeviceContext& device, Replicas* replicas)
    : state_(std::make_unique<State>(*this, task, config, device, replicas)) {}
Trainer::~Trainer() = default;
void Trainer::write_to(RunFolder& folder) { state_->write_to(folder); }
void Trainer::add(std::shared_ptr<Callback> callback) { state_->callbacks.push_back(std::move(callback)); }
std::vector<std::string> Trainer::resume() {
  if (state_->folder == nullptr) throw ValueError("[train] there is no folder to resume from");
  return state_->resume(state_->folder->path());
}
std::vector<std::string> Trainer::resume(const std::string& folder) { return state_->resume(folder); }
void Trainer::set_copies_every(int64_t updates) { state_->copies_every = updates; }
Remains Trainer::remains() { return state_->remains(); }
void Trainer::go_on(SurvivorState state) { state_->go_on(std::move(state)); }
void Trainer::set_lost(const LostRanks& lost) {
  state_->lost = lost;
  state_->told = lost.told;
}
Outcome Trainer::run(bool evaluate) { return state_->run(evaluate); }
void Trainer::stop() { state_->stopped = true; }
void Trainer::interrupt() noexcept { state_->interrupted = true; }

const Config& Trainer::config() const { return state_->config; }
Task& Trainer::task() const { return state_->task; }
DeviceContext& Trainer::device() const { return state_->device; }
int64_t Trainer::step() const { return state_->step; }
int64_t Trainer::first_step() const { return state_->first_step; }
int64_t Trainer::last_step() const { return state_->last_step(); }
int64_t Trainer::steps_per_epoch() const { return state_->length.steps_per_epoch; }
int64_t Trainer::epoch() const { return state_->step / state_->length.steps_per_epoch; }
int64_t Trainer::epochs() const {
  return (state_->length.steps + state_->length.steps_per_epoch - 1) / state_->length.steps_per_epoch;
}
double Trainer::seconds() const { return state_->window.run_seconds(); }
const std::vector<Tensor>& Trainer::gradients() const { return state_->training_step.gradients(); }
double Trainer::last_loss() const { return state_->window.last_loss(); }
const Evaluation& Trainer::evaluation() const { return state_->evaluation; }
const Evaluation& Trainer::tested() const { return state_->tested; }
int64_t Trainer::model_step() const { return state_->model_step; }
const Replicas* Trainer::replicas() const { return state_->ranks; }
std::string Trainer::weights_sha256() const {
  const bool in_parts = state_->parted || state_->training_step.parameters() != nullptr;
  return in_parts ? state_->weights_sha256 : train::parameters_sha256(state_->task.model());
}
double Trainer::checkpoint_stall() const { return state_->save_stall; }
std::string Trainer::checkpoint_path() const { return state_->checkpoint_path; }
std::string Trainer::model_path() const {
  return state_->folder != nullptr ? state_->folder->file("model.safetensors") : std::string();
}

RunReport Trainer::report() const {
  const State& s = *state_;
  const double seconds = s.window.training_seconds(), samples = static_cast<double>(s.step - s.first_step) *
                                                                static_cast<double>(examples_per_update(s.config));
  Throughput throughput = s.feed.throughput();
  const auto updates = static_cast<uint64_t>(std::max<int64_t>(1, s.step - s.first_step));
  throughput.idle = s.watch.idle();
  throughput.compute = std::max(0.0, seconds - s.watch.idle() - s.watch.compiling());
  return {.training_seconds = seconds,
          .median_step_seconds = median(s.window.step_seconds()),
          .samples_per_second = seconds > 0 ? samples / seconds : 0,
          .kernels_per_step = s.window.kernels_per_step(),
          .peak_device_bytes = s.device.memory().peak_bytes,
          .throughput = throughput,
          .rank_seconds = s.pace.seconds(),
          .bubble = s.bubble,
          .bytes_sent = s.bytes_sent / updates,
          .communication_hidden = s.training_step.communication_hidden()};
}

}  // namespace heddle::train
