// heddle compile: a model with images for devices, which run without this library (runtime/heddle.h).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/base/build_info.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/deploy/cuda_target.h"
#include "tools/cli.h"
#if HEDDLE_HAS_ONNX
#include "heddle/onnx/package.h"
#include "heddle/runtime/model_target.h"
#include "tools/compile_c.h"
#include "tools/compile_model.h"
#include "tools/import_model.h"
#endif

namespace heddle::tools {
namespace {

struct CompileCommandOptions {
  std::string file, output, golden = "reference:0";
  std::vector<std::string> targets{"vulkan", "opencl"}, buckets, shapes;
  bool json = false;
};

#if HEDDLE_HAS_ONNX
// The device that an image for a target is planned on. It must be here, since the kernels are run once; but for an
// architecture of NVIDIA's, whose code needs no GPU to be made.
DeviceContext& device_for(const std::string& target) {
  const std::string_view name = std::string_view(target).substr(0, target.find(':'));
  if (name != "vulkan" && name != "opencl" && name != "cuda")
    throw ValueError(
        fmt::format("[compile] there is no target '{}'; known: vulkan, opencl, cuda, cuda:sm_80, c", target));
  if (target.starts_with("cuda:sm_")) {
    for (const DeviceInfo& info : Registry::instance().devices()) {
      if (info.available && target_name(info.caps) == target) return device(info.id);
    }
    return cuda_target(target);
  }
  try {
    return open_device(target, false);
  } catch (const DeviceUnavailable& absent) {
    throw DeviceUnavailable(
        fmt::format("[compile] target {} needs such a device here, on which its kernels are run once ({} does not): {}",
                    target, name == "cuda" ? "cuda:sm_80" : "c", absent.what()));
  }
}

// Parts of the file that is being made, with the bytes behind them.
class ModelWriter {
 public:
  explicit ModelWriter(const CompileCommandOptions& o) : o_(o) {
    if (onnx::is_package(o.file)) {
      source_.emplace(ModelParts::map(o.file));
      source_->verify();
      metadata_ = source_->metadata();
      for (const PartEntry& entry : source_->entries()) keep(entry);
    } else {
      package_.emplace(onnx::package_of(o.file));
      metadata_ = package_->metadata;
      parts_ = package_->parts();
    }
    const auto known =
        std::find_if(parts_.begin(), parts_.end(), [](const ModelPart& p) { return p.kind == PartKind::weights; });
    weights_.emplace("constants", known == parts_.end() ? "" : known->name,
                     known == parts_.end() ? std::span<const uint8_t>() : known->bytes);
  }

  WeightStore& weights() { return *weights_; }
  void add(ModelPart part, std::vector<uint8_t> bytes) {
    made_.push_back(std::move(bytes));
    part.bytes = made_.back();
    parts_.push_back(std::move(part));
  }
  void write(const std::string& path) {
    if (!weights_->bytes().empty())
      parts_.push_back({.name = weights_->part(), .kind = PartKind::weights, .bytes = weights_->bytes()});
    const Json lineage{
        {"made_by", fmt::format("heddle {}", library_version())},
        {"commit", source_commit()},
        {"made_from", metadata_.contains("made_from") ? metadata_["made_from"] : ""},
        {"made_from_sha256", metadata_.contains("made_from_sha256") ? metadata_["made_from_sha256"] : ""},
        {"targets", o_.targets},
        {"buckets", o_.buckets},
        {"golden", o_.golden}};
    const std::string text = lineage.dump();
    add({.name = "lineage", .kind = PartKind::lineage}, {text.begin(), text.end()});
    write_model_parts(path, parts_, metadata_);
  }

 private:
  // What belongs to an earlier compilation is made anew.
  void keep(const PartEntry& entry) {
    const bool anew = entry.kind == PartKind::image || entry.kind == PartKind::golden ||
                      entry.kind == PartKind::lineage || entry.name == "constants";
    if (!anew)
      parts_.push_back(
          {.name = entry.name, .kind = entry.kind, .bytes = source_->bytes(entry), .attributes = entry.attributes});
  }

  const CompileCommandOptions& o_;
  std::optional<ModelParts> source_;
  std::optional<onnx::Package> package_;
  std::optional<WeightStore> weights_;
  PartAttributes metadata_;
  std::vector<ModelPart> parts_;
  std::deque<std::vector<uint8_t>> made_;
};

Json facts_of(const ModelImage& image, const std::string& target, const std::string& bucket, size_t bytes) {
  uint64_t arena = 0;
  for (const uint64_t block : image.image.arena_bytes) arena += block;
  return {{"target", target},
          {"bucket", bucket},
          {"device", image.device},
          {"kernels", image.image.kernels.size()},
          {"launches", image.image.launch_count()},
          {"image_bytes", bytes},
          {"arena_bytes", arena},
          {"value_bytes", image.value_bytes}};
}

void show(const Json& facts) {
  fmt::print("image   {} {}: {} launches, {} bytes, arena {} of {} bytes of values\n",
             facts["target"].get<std::string>(), facts["bucket"].get<std::string>(), facts["launches"].get<size_t>(),
             facts["image_bytes"].get<size_t>(), facts["arena_bytes"].get<uint64_t>(),
             facts["value_bytes"].get<uint64_t>());
}

// Where the parts of a compilation go: images into a .heddle file, the target c into a folder of its own. With both,
// -o names a folder that holds the two.
struct Outputs {
  std::string file, c_folder;  // empty: there is none
};

Outputs outputs_of(const CompileCommandOptions& o) {
  const bool for_c = std::find(o.targets.begin(), o.targets.end(), "c") != o.targets.end();
  if (!for_c) {
    if (!onnx::is_package(o.output))
      throw ValueError(fmt::format("[compile] {}: a model is written as a .heddle file", o.output));
    return {o.output, ""};
  }
  if (onnx::is_package(o.output))
    throw ValueError(
        fmt::format("[compile] {}: target c is written into a folder{}, not a .heddle file", o.output,
                    o.targets.size() > 1 ? ", which -o names, and the .heddle file of the others into it" : ""));
  if (o.targets.size() == 1) return {"", o.output};
  std::error_code error;
  if (fs::exists(o.output, error))
    throw ValueError(fmt::format("[compile] {}: is there already; a folder is made", o.output));
  const fs::path folder(o.output);
  return {(folder / (fs::path(o.file).stem().string() + ".heddle")).string(), (folder / "c").string()};
}

Json write_c(const CompileCommandOptions& o, const std::string& folder, const std::vector<onnx::Port>& inputs) {
  Json written = compile_c({o.file, folder, o.golden, parse_buckets(o.buckets)}, inputs);
  if (!o.json) fmt::print("C99     {0}: {1} files; cc -std=c99 -O3 {0}/*.c -lm\n", folder, written["files"].size());
  return written;
}

// Each target but c, for each bucket.
Json add_images(const CompileCommandOptions& o, const onnx::Report& report, ModelWriter& writer) {
  std::vector<DeviceContext*> devices;
  for (const std::string& target : o.targets) {
    if (target != "c") devices.push_back(&device_for(target));
  }
  const std::vector<Bucket> buckets = parse_buckets(o.buckets);
  Json images = Json::array();
  for (DeviceContext* const device : devices) {
    onnx::LoadOptions options;
    options.device = device;
    const onnx::Model model = onnx::load(o.file, options);
    for (const Bucket& bucket : buckets) {
      const std::string name = bucket_name(bucket), target = target_name(device->caps());
      const ModelImage image = compile_function(*device, function_of(model, report.inputs, bucket), writer.weights());
      std::vector<uint8_t> bytes = model_image_bytes(image);
      images.push_back(facts_of(image, target, name, bytes.size()));
      if (!o.json) show(images.back());
      writer.add(image_part(target, name, {}), std::move(bytes));
    }
  }
  GoldenMaker maker(o.file, o.golden);
  for (const Bucket& bucket : buckets) {
    if (const std::optional<Golden> golden = maker.make(report.inputs, bucket))
      writer.add(golden_part(*golden, bucket_name(bucket), {}), golden_bytes(*golden));
  }
  return images;
}

void run(const CompileCommandOptions& o) {
  const Outputs outputs = outputs_of(o);
  onnx::Report report = onnx::inspect(o.file);
  if (!report.runs()) throw ValueError("[compile] the model cannot run:\n" + report.text());
  if (!report.waits.empty())
    throw ValueError(
        fmt::format("[compile] results are sized by values, which no image can be: {}", fmt::join(report.waits, ", ")));
  for (const std::string& shape : o.shapes) set_shape(report, shape);
  Json done{{"event", "done"}, {"output", o.output}};
  std::optional<ModelWriter> writer;
  if (!outputs.file.empty()) done["images"] = add_images(o, report, writer.emplace(o));
  // Both are there, or neither.
  try {
    if (!outputs.c_folder.empty()) done["c"] = write_c(o, outputs.c_folder, report.inputs);
    if (writer) writer->write(outputs.file);
  } catch (...) {
    std::error_code error;
    if (writer && !outputs.c_folder.empty()) fs::remove_all(o.output, error);
    throw;
  }
  if (o.json) print_json(done);
}
#else
void run(const CompileCommandOptions&) {
  throw ValueError("[compile] this build reads no ONNX" + std::string(without_onnx));
}
#endif

}  // namespace

void add_compile(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("compile", "Add images to a model, which run without this library");
  auto options = std::make_shared<CompileCommandOptions>();
  CompileCommandOptions& o = *options;
  command->add_option("file", o.file, "A .onnx file, or a .heddle file made of one")->required();
  command
      ->add_option("-o,--output", o.output,
                   "The .heddle file; with the target c a folder, for its sources and the others' file")
      ->required();
  command
      ->add_option("--targets", o.targets,
                   "Of vulkan, opencl, cuda, each of which needs its device here; cuda:sm_80, any architecture "
                   "that NVRTC knows, without one; c: sources in C99")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--buckets", o.buckets, "Sizes of a dimension that varies: N=1,8,32; once for each name");
  command->add_option("--shape", o.shapes, "Sizes of an input, such as 'x=N,3,224,224': numbers or names");
  command->add_option("--golden", o.golden, "Device that gives the golden vectors, or none")->capture_default_str();
  add_json_option(*command, o.json);
  command->footer(
      "Whoever opens the file checks the golden vectors. The C interface is heddle/runtime/heddle.h.\n"
      "Example:\n  heddle compile net.onnx --targets vulkan,opencl --buckets N=1,8 -o net.heddle\n"
      "  heddle compile net.onnx --targets opencl,cuda:sm_80,cuda:sm_90,c -o net  (net/net.heddle, net/c)\n"
      "  heddle compile net.onnx --targets c -o net-c && cc -std=c99 -O3 net-c/*.c -lm -o net && ./net");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
