#include "heddle/train/model_file.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/train/run_state.h"

namespace heddle::train {
namespace {

Checkpoint read(const std::string& path, DeviceContext& device, std::string& found) {
  found = path;
  if (!fs::is_directory(path)) return load_checkpoint(path, &device, States::left_out);
  const fs::path folder(path);
  found = (folder / "model.safetensors").string();
  if (fs::exists(found)) return load_checkpoint(found, &device);
  std::optional<LatestCheckpoint> latest =
      load_latest_checkpoint((folder / "checkpoints").string(), &device, States::left_out);
  if (!latest)
    throw IoError(fmt::format("[model] {}: a folder without model.safetensors and without checkpoints", path));
  found = latest->path;
  return std::move(latest->checkpoint);
}

}  // namespace

ModelFile read_model_file(const std::string& path, DeviceContext& device) {
  ModelFile file;
  Checkpoint read_in = read(path, device, file.path);
  const auto config = read_in.metadata.find("config");
  if (config == read_in.metadata.end())
    throw IoError(fmt::format("[model] {}: no 'config' in its metadata; not written by heddle train", file.path));
  file.config.parse(config->second, file.path);
  file.state = model_state(read_in);
  file.metadata = std::move(read_in.metadata);
  return file;
}

}  // namespace heddle::train
