// Who may include whom: tools -> train -> nn, data -> io, autograd -> core <- backend_*; driver headers only in backends.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace heddle {
namespace {

namespace fs = std::filesystem;

// The one file above the device layer that asks backends' compilers for text (heddle kernel --print ptx).
constexpr const char* compiler_caller = "tools/kernel_binary.cpp";
constexpr const char* driver_opener = "tools/probe/probe.cpp";  // in the place of a backend, and links nothing of ours

// Folder (or single file) -> folders it may include.
const std::map<std::string, std::set<std::string>>& allowed() {
  static const std::map<std::string, std::set<std::string>> table = {
      {"core", {"core"}},
      {"autograd", {"core", "autograd"}},
      {"nn", {"core", "autograd", "nn"}},
      {"data", {"core", "io", "data"}},
      {"io", {"core", "io"}},
      {"train", {"core", "autograd", "nn", "data", "io", "train"}},
      {"backend_vulkan", {"core", "backend_vulkan"}},
      {"backend_opencl", {"core", "backend_opencl"}},
      {"backend_cuda", {"core", "backend_cuda"}},
      {"bench", {"core", "autograd", "nn", "data", "io", "bench"}},
      {"tools", {"core", "autograd", "nn", "data", "io", "train", "bench", "tools"}},
      {compiler_caller, {"core", "tools", "backend_vulkan", "backend_cuda"}},
      {driver_opener, {}},
      {"examples", {"heddle.h"}},
  };
  return table;
}

bool is_driver_header(const std::string& name) {
  static const std::regex pattern("^(vulkan/|volk|CL/|OpenCL/|cuda|nvrtc|cublas|glslang/|SPIRV|spirv)");
  return std::regex_search(name, pattern);
}

std::string first_part(const std::string& path) { return path.substr(0, path.find('/')); }

// What is wrong with an #include line in a file of that folder; empty when nothing is.
std::string complaint(const std::string& folder, const std::string& line) {
  static const std::regex pattern("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
  std::smatch match;
  if (!std::regex_search(line, match, pattern)) return {};
  const std::string name = match[2];
  if (is_driver_header(name) && folder.rfind("backend_", 0) != 0 && folder != driver_opener) return "driver header above the device layer";
  if (match[1] == "<") return {};
  const std::string target = first_part(name);
  if (allowed().count(target) == 0 && target != "heddle.h")
    return "quoted include that is not relative to the repository's root";
  if (allowed().at(folder).count(target) == 0) return folder + " must not include " + target;
  return {};
}

std::vector<fs::path> sources(const std::string& folder) {
  std::vector<fs::path> files;
  const fs::path root = fs::path(HEDDLE_SOURCE_DIR) / folder;
  if (!fs::is_directory(root)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const std::string extension = entry.path().extension().string();
    if (extension == ".h" || extension == ".cpp" || extension == ".inc") files.push_back(entry.path());
  }
  return files;
}

TEST(IncludeDirection, EveryFileKeepsTheLayers) {
  size_t files = 0, lines = 0;
  for (const auto& [folder, targets] : allowed()) {
    for (const fs::path& file : sources(folder)) {
      ++files;
      const std::string name = fs::relative(file, HEDDLE_SOURCE_DIR).string();
      const std::string& rule = name == compiler_caller || name == driver_opener ? name : folder;
      std::ifstream in(file);
      std::string line;
      for (int number = 1; std::getline(in, line); ++number) {
        lines += line.rfind("#include", 0) == 0;
        const std::string wrong = complaint(rule, line);
        EXPECT_TRUE(wrong.empty()) << file.string() << ":" << number << ": " << wrong << ": " << line;
      }
    }
  }
  EXPECT_GT(files, 50u);  // the walk really found the sources
  EXPECT_GT(lines, 200u);
}

TEST(IncludeDirection, TheRuleItself) {
  EXPECT_EQ(complaint("core", "#include \"core/base/shape.h\""), "");
  EXPECT_EQ(complaint("core", "#include <vector>"), "");
  EXPECT_EQ(complaint("core", "int x;  // #include \"nn/nn.h\""), "");
  EXPECT_EQ(complaint("backend_vulkan", "#include <vulkan/vulkan.h>"), "");
  EXPECT_EQ(complaint("backend_opencl", "  # include <CL/cl.h>"), "");
  EXPECT_NE(complaint("core", "#include \"autograd/autograd.h\""), "");
  EXPECT_NE(complaint("autograd", "#include \"nn/nn.h\""), "");
  EXPECT_NE(complaint("nn", "#include \"data/datasets.h\""), "");
  EXPECT_NE(complaint("backend_vulkan", "#include \"backend_opencl/loader.h\""), "");
  EXPECT_NE(complaint("core", "#include \"backend_vulkan/device.h\""), "");
  EXPECT_NE(complaint("core", "#include <vulkan/vulkan.h>"), "");
  EXPECT_NE(complaint(driver_opener, "#include \"core/base/shape.h\""), "");
  EXPECT_NE(complaint("nn", "#include \"CL/cl.h\""), "");
  EXPECT_NE(complaint("tools", "#include <cuda.h>"), "");
  EXPECT_NE(complaint("core", "#include \"shape.h\""), "");
}

}  // namespace
}  // namespace heddle
