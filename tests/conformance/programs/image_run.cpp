// image_run DEVICE JOB RESULTS: runs an image that another process planned, on what it read there, and writes the
// outputs' bytes (tests/conformance/image_test.cpp). Errors: one line and exit code 1.
#include <algorithm>
#include <cstdio>
#include <exception>

#include "heddle/core/device/context.h"
#include "heddle/core/run/image_bytes.h"
#include "heddle/core/run/launcher.h"
#include "tests/support/image_job.h"

using namespace heddle;

namespace {

void run(const char* id, const char* job_file, const char* results_file) {
  const auto job = test::read_archive<test::ImageJob>(job_file);
  DeviceContext& dev = device(id);
  Launcher launcher(dev, image_from_bytes(job.image));
  std::vector<StoragePtr> storages;
  std::vector<uint64_t> bases;
  for (const test::ImageJob::Input& input : job.inputs) {
    storages.push_back(dev.allocate(input.bytes.size()));
    if (!input.bytes.empty()) dev.write(*storages.back(), 0, input.bytes.data(), input.bytes.size());
    bases.push_back(input.base);
  }
  std::vector<HostValue> host_values(job.host_words.size() / 4);
  for (size_t i = 0; i < host_values.size(); ++i)
    std::copy_n(job.host_words.begin() + static_cast<std::ptrdiff_t>(4 * i), 4, host_values[i].words.begin());
  const Launcher::Inputs inputs{storages, bases, host_values};
  if (const std::string complaint = launcher.complaint(inputs); !complaint.empty()) throw DeviceError(complaint);
  test::write_archive(results_file, test::read_results(dev, launcher.run(inputs), job.outputs));
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 1;
  try {
    run(arguments[1], arguments[2], arguments[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
