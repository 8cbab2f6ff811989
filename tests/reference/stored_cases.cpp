#include "tests/reference/stored_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/io/safetensors.h"

namespace heddle::tests {
namespace {

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path) : file_(load_safetensors(path.string(), &device("reference:0"))) {}

  std::vector<StoredCase> cases() const {
    std::vector<StoredCase> result;
    const nlohmann::json list = nlohmann::json::parse(file_.metadata.at("cases"));
    for (size_t i = 0; i < list.size(); ++i) result.push_back(make(i, list[i]));
    return result;
  }

 private:
  StoredCase make(size_t number, const nlohmann::json& entry) const {
    StoredCase c;
    c.op = entry.at("op");
    c.args = entry.at("args");
    for (const std::string name : entry.at("in")) c.in.push_back(parse_dtype(name));
    c.out = entry.at("out").get<std::vector<std::string>>();
    c.kind = entry.value("kind", "");
    c.name = fmt::format("{} {}case {}: {}", c.op, c.kind.empty() ? "" : c.kind + " ", number, c.args.dump());
    for (size_t k = 0; k < c.in.size(); ++k) c.inputs.push_back(tensor(number, "in", k));
    for (const DType t : c.in) c.name += fmt::format(" {}", name_of(t));
    for (size_t k = 0; k < c.out.size(); ++k) {
      c.outputs.push_back(tensor(number, "out", k));
      if (file_.tensors.contains(fmt::format("{}.cot.{}", number, k))) c.cotangents[k] = tensor(number, "cot", k);
    }
    for (const size_t k : entry.at("grad")) c.gradients[k] = tensor(number, "grad", k);
    return c;
  }

  StoredTensor tensor(size_t number, const char* role, size_t k) const {
    const Tensor& t = file_.tensors.at(fmt::format("{}.{}.{}", number, role, k));
    return {t.shape(), t.to_doubles()};
  }

  SafetensorsFile file_;
};

}  // namespace

const std::map<std::string, std::vector<StoredCase>>& stored_cases() {
  static const auto all = [] {
    std::map<std::string, std::vector<StoredCase>> result;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(HEDDLE_SOURCE_DIR "/tests/reference/values"))
      files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& path : files) {
      for (StoredCase& c : Reader(path).cases()) result[c.op].push_back(std::move(c));
    }
    for (auto& [op, cases] : result)
      std::stable_partition(cases.begin(), cases.end(), [](const StoredCase& c) { return c.kind.empty(); });
    return result;
  }();
  return all;
}

}  // namespace heddle::tests
