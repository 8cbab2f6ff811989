#include "tests/fuzz/target.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "heddle/core/base/error.h"

namespace heddle::fuzz {

const std::vector<Target>& targets() {
  static const std::vector<Target> all = [] {
    std::vector<Target> list;
    for (const auto& part :
         {array_targets(), text_targets(), kernel_targets(), run_targets(), model_targets(), dlpack_targets()})
      list.insert(list.end(), part.begin(), part.end());
#if HEDDLE_HAS_ONNX
    const std::vector<Target> onnx = onnx_targets();
    list.insert(list.end(), onnx.begin(), onnx.end());
#endif
    return list;
  }();
  return all;
}

const Target* find_target(std::string_view name) {
  for (const Target& target : targets()) {
    if (target.name == name) return &target;
  }
  return nullptr;
}

void require(bool held, std::string_view what) {
  if (held) return;
  fmt::print(stderr, "fuzz: {}\n", what);
  std::abort();
}

void run_target(const Target& target, Bytes input) {
  try {
    target.run(input);
  } catch (const UserError& error) {
    const std::string_view message = error.what();
    constexpr size_t most = 4000;
    require(message.starts_with('[') || message.find(": ") != message.npos, "a message says neither who nor where");
    require(message.size() <= most, fmt::format("a message has {} bytes: {}", message.size(), message.substr(0, 200)));
  }
}

const std::string& file_of(Bytes bytes) {
  thread_local const int descriptor = ::memfd_create("fuzz", MFD_CLOEXEC);
  thread_local const std::string path = fmt::format("/proc/self/fd/{}", descriptor);
  require(descriptor >= 0 && ::ftruncate(descriptor, 0) == 0, "no file in memory");
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t wrote = ::pwrite(descriptor, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    require(wrote > 0, "no room for a file in memory");
    done += static_cast<size_t>(wrote);
  }
  return path;
}

const std::string& scratch_folder() {
  struct Folder {
    std::string path;
    Folder() {
      std::error_code code;
      const bool shared = std::filesystem::is_directory("/dev/shm", code);
      path =
          (shared ? "/dev/shm" : std::filesystem::temp_directory_path().string()) + std::string("/heddle-fuzz-XXXXXX");
      require(::mkdtemp(path.data()) != nullptr, "no folder for scratch files");
    }
    ~Folder() {
      std::error_code code;
      std::filesystem::remove_all(path, code);
    }
  };
  static const Folder folder;
  return folder.path;
}

std::string read_back(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

}  // namespace heddle::fuzz
