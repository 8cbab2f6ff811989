#include "bench/bounds.h"

#include <fmt/format.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/run/replay.h"

namespace heddle::bench {
namespace {

constexpr std::string_view peak_text = R"(// Multiply-adds in registers.
/*
out     dst f32
const   uint N loops
const   float X
const   float Y
tune    VW 1 [1 4 8 16]
tune    ACC 8 [4 8 12 16 20 24]
tune    LANES 1 [1 8 16 64 256]
group   LANES
grid    1
*/
KERNEL
VEC acc[ACC];
float start = X + CAST(float, LOCAL_ID(0));
VEC vx = VSPLAT(X);
VEC vy = VSPLAT(Y);
UNROLL for (uint a = 0u; a < ACC; ++a) acc[a] = VSPLAT(start + CAST(float, a));
for (uint n = 0u; n < N; ++n) {
  UNROLL for (uint a = 0u; a < ACC; ++a) acc[a] = VFMA(acc[a], vx, vy);
}
VEC sum = acc[0];
UNROLL for (uint a = 1u; a < ACC; ++a) sum = sum + acc[a];
STORE(dst, GROUP_LINEAR * LANES + LOCAL_ID(0), VSUM(sum));
)";

constexpr std::string_view copy_text = R"(// COUNT floats, a multiple of what a group copies.
/*
in      src f32
out     dst f32
const   uint COUNT
tune    VW 1 [1 4 16]
tune    PER 4 [1 4 256 1024 16384] vectors of a lane
tune    LANES 1 [1 8 64 256]
tune    LINES 0 [0 1] whole lines past the caches; a lane copies a multiple of 256 floats
group   LANES
grid    linear COUNT / (LANES * PER * VW)
*/
KERNEL
INDEX first = CAST(INDEX, GROUP_LINEAR) * (LANES * PER * VW);
if (first < COUNT) {
#if LINES
  ARRAY(float, line, 256);
  for (uint j = 0u; j < PER * VW; j += 256u) {
    for (uint k = 0u; k < 256u; k += VW) {
      VEC v = VLOAD2(src, first, j + k);
      VTO(line, k, v);
    }
    STREAM(dst, first + j, line, 256);
  }
#elif LANES == 1
  for (uint j = 0u; j < PER; ++j) {
    VEC v = VLOAD2(src, first, j * VW);
    VSTORE(dst, first + j * VW, v);
  }
#else
  for (uint p = 0u; p < PER; ++p) {
    INDEX i = first + CAST(INDEX, (p * LANES + LOCAL_ID(0)) * VW);
    VEC v = VLOAD(src, i);
    VSTORE(dst, i, v);
  }
#endif
}
)";

constexpr std::string_view read_text = R"(// One sum a lane.
/*
in      src f32
out     dst f32
const   uint COUNT
tune    VW 1 [1 4 16]
tune    PER 4 [4 16 256 1024] runs of four vectors of a lane
tune    LANES 1 [1 8 64 256]
group   LANES
grid    linear COUNT / (LANES * PER * 4 * VW)
*/
KERNEL
INDEX first = CAST(INDEX, GROUP_LINEAR) * (LANES * PER * 4 * VW);
if (first < COUNT) {
  VEC acc[4];
  UNROLL for (uint a = 0u; a < 4u; ++a) acc[a] = VSPLAT(0.0f);
  for (uint p = 0u; p < PER; ++p) {
    UNROLL for (uint a = 0u; a < 4u; ++a) {
      acc[a] = acc[a] + VLOAD2(src, first, CAST(INDEX, ((p * 4u + a) * LANES + LOCAL_ID(0)) * VW));
    }
  }
  STORE(dst, GROUP_LINEAR * LANES + LOCAL_ID(0), VSUM(acc[0] + acc[1] + acc[2] + acc[3]));
}
)";

uint32_t bits(float x) {
  uint32_t word = 0;
  std::memcpy(&word, &x, sizeof(word));
  return word;
}

// A recording of one command, submitted again and again.
Side side_of(DeviceContext& device, const Command& command, std::vector<StoragePtr> memory) {
  RecordingId id = RecordingId::none;
  {
    auto locked = device.lock();
    id = locked.device.record(std::span(&command, 1), false);
  }
  auto kept = std::make_shared<KeptRecording>(device, id, 1, std::move(memory));
  return {[kept] {
            auto locked = kept->device().lock();
            kept->device().remember(locked.device.submit(kept->id()));
          },
          [kept] { kept->device().synchronize(); }};
}

struct Candidate {
  Bindings tunables;
  std::string how;
};

std::vector<Candidate> candidates(const Caps& caps, std::string_view kind) {
  const bool loops = caps.machine() == Machine::cpu_loops;
  const bool cpu = caps.device_class == DeviceClass::cpu;
  if (kind == "peak") {
    if (loops)
      return {{{{"VW", 16}, {"ACC", 12}}, "12 float16"},
              {{{"VW", 16}, {"ACC", 24}}, "24 float16"},
              {{{"VW", 8}, {"ACC", 12}}, "12 float8"}};
    if (cpu)
      return {{{{"LANES", 8}, {"ACC", 8}}, "8 lanes of 8"},
              {{{"LANES", 8}, {"VW", 4}, {"ACC", 4}}, "8 lanes of 4 vec4"}};
    return {{{{"LANES", 256}, {"ACC", 8}}, "256 lanes of 8"}, {{{"LANES", 256}, {"ACC", 16}}, "256 lanes of 16"}};
  }
  const int64_t per = kind == "copy" ? 1024 : 256;
  if (loops && kind == "copy")
    return {{{{"VW", 16}, {"PER", per}}, "kernel, float16"},
            {{{"VW", 16}, {"PER", per}, {"LINES", 1}}, "kernel, streaming stores"}};
  if (loops) return {{{{"VW", 16}, {"PER", per}}, "kernel, float16"}};
  const int64_t few = 4;
  if (cpu)
    return {{{{"LANES", 8}, {"VW", 4}, {"PER", per}}, "kernel, 8 lanes of vec4"},
            {{{"LANES", 64}, {"VW", 4}, {"PER", few}}, "kernel, 64 lanes of vec4"}};
  return {{{{"LANES", 256}, {"VW", 4}, {"PER", few}}, "kernel, 256 lanes of vec4"},
          {{{"LANES", 256}, {"PER", few}}, "kernel, 256 lanes"}};
}

// A launch of a probe kernel on its own buffers: src and dst of `floats` floats.
Side launch(DeviceContext& device, const KernelFile& file, const Bindings& tunables,
            const std::vector<StoragePtr>& buffers, const std::vector<uint32_t>& constants,
            std::array<uint32_t, 3> groups) {
  KernelFile::Options options;
  options.tunables = tunables;
  Dispatch dispatch;
  dispatch.kernel = device.kernel(file.instantiate(options));
  std::copy(groups.begin(), groups.end(), dispatch.groups);
  for (const StoragePtr& buffer : buffers) dispatch.bindings.push_back(buffer->binding());
  dispatch.constants = constants;
  return side_of(device, dispatch, buffers);
}

// Whole lines past the caches, where the compiler offers it: a line that is written in full need not be read first.
void stream_copy(float* dst, const float* src, size_t count) {
#ifdef __SSE2__
  size_t i = 0;
  for (; i < count && reinterpret_cast<uintptr_t>(dst + i) % 16 != 0; ++i) dst[i] = src[i];
  for (; i + 16 <= count; i += 16) {
    for (size_t j = 0; j < 16; j += 4) _mm_stream_ps(dst + i + j, _mm_loadu_ps(src + i + j));
  }
  for (; i < count; ++i) dst[i] = src[i];
  _mm_sfence();
#else
  std::memcpy(dst, src, count * sizeof(float));
#endif
}

// Halves (quarters, ...) on all cores.
Side host_copy(std::shared_ptr<std::vector<float>> src, std::shared_ptr<std::vector<float>> dst, bool stream) {
  return {[src, dst, stream] {
            const size_t threads = std::max(1u, std::thread::hardware_concurrency());
            const size_t part = (src->size() + threads - 1) / threads;
            const auto copy = [&](size_t t) {
              const size_t begin = std::min(src->size(), t * part), end = std::min(src->size(), begin + part);
              if (stream)
                stream_copy(dst->data() + begin, src->data() + begin, end - begin);
              else
                std::memcpy(dst->data() + begin, src->data() + begin, (end - begin) * sizeof(float));
            };
            std::vector<std::thread> others;
            for (size_t t = 1; t < threads; ++t) others.emplace_back(copy, t);
            copy(0);
            for (std::thread& thread : others) thread.join();
          },
          [] {}};
}

void offer(Probe& best, double& least, Probe candidate) {
  const double seconds = quick_seconds(candidate.side, 5) / candidate.amount;
  if (seconds >= least) return;
  least = seconds;
  best = std::move(candidate);
}

}  // namespace

Bounds::Bounds(DeviceContext& device) : device_(device) {}
Bounds::~Bounds() = default;

bool Bounds::measurable() const { return device_.caps().target != Target::none; }

Probe Bounds::make_compute() {
  static const KernelFile file = KernelFile::parse(peak_text, "bench/peak");
  const Caps& caps = device_.caps();
  Probe best;
  double least = INFINITY;
  for (const Candidate& c : candidates(caps, "peak")) {
    const auto value = [&](const char* name) { return c.tunables.contains(name) ? c.tunables.at(name) : 1; };
    const bool cpu = caps.device_class == DeviceClass::cpu;
    const uint32_t loops = cpu ? 8192 : 2048, groups = std::max(1u, caps.compute_units) * (cpu ? 8 : 16);
    const StoragePtr dst = device_.allocate(groups * static_cast<uint64_t>(value("LANES")) * 4);
    Side side = launch(device_, file, c.tunables, {dst}, {loops, bits(0.999f), bits(0.001f)}, {groups, 1, 1});
    const double flops = 2.0 * loops * groups * static_cast<double>(value("LANES") * value("VW") * value("ACC"));
    offer(best, least, {std::move(side), flops, c.how});
  }
  return best;
}

Probe Bounds::make_bandwidth(Bound bound, uint64_t floats) {
  static const KernelFile copy_file = KernelFile::parse(copy_text, "bench/copy"),
                          read_file = KernelFile::parse(read_text, "bench/read");
  const bool copy = bound == Bound::copy;
  const KernelFile& file = copy ? copy_file : read_file;
  const Caps& caps = device_.caps();
  const double bytes = static_cast<double>(floats) * (copy ? 8 : 4);
  const StoragePtr src = device_.allocate(floats * 4),
                   dst = device_.allocate(copy ? floats * 4 : std::max<uint64_t>(floats / 4, 1024));
  const std::vector<float> values(floats, 0.5f);
  device_.write(*src, 0, values.data(), floats * 4);
  Probe best;
  double least = INFINITY;
  for (const Candidate& c : candidates(caps, copy ? "copy" : "read")) {
    const auto groups = file.groups(c.tunables, {{"COUNT", static_cast<int64_t>(floats)}});
    offer(best, least,
          {launch(device_, file, c.tunables, {src, dst}, {static_cast<uint32_t>(floats)}, groups), bytes, c.how});
  }
  if (copy)
    offer(best, least, {side_of(device_, Copy{src->binding(), dst->binding()}, {src, dst}), bytes, "copy command"});
  if (copy && caps.device_class == DeviceClass::cpu) {
    const auto from = std::make_shared<std::vector<float>>(values), to = std::make_shared<std::vector<float>>(floats);
    offer(best, least, {host_copy(from, to, false), bytes, "memcpy on all cores"});
    offer(best, least, {host_copy(from, to, true), bytes, "streaming stores on all cores"});
  }
  return best;
}

const Probe* Bounds::probe(Bound bound, double bytes) {
  if (!measurable() || bound == Bound::none) return nullptr;
  uint64_t floats = 0;
  if (bound != Bound::compute) {
    // Multiples of what a group handles, within what a binding may cover and some memory.
    constexpr uint64_t step = 1 << 16;
    const uint64_t most = std::min<uint64_t>(device_.caps().max_binding_bytes, 256u << 20) / 4 / step * step;
    const auto wanted = static_cast<uint64_t>(bytes / (bound == Bound::copy ? 8 : 4)) / step * step;
    floats = std::clamp<uint64_t>(wanted, step, std::max(most, step));
  }
  const auto key = std::make_pair(bound, floats);
  if (const auto found = probes_.find(key); found != probes_.end()) return &found->second;
  return &probes_.emplace(key, bound == Bound::compute ? make_compute() : make_bandwidth(bound, floats)).first->second;
}

void Bounds::add(Bound bound, double amount, const std::vector<double>& seconds) {
  std::vector<double>& rates = rates_[{bound, bound == Bound::compute ? 0 : amount}];
  for (const double s : seconds) rates.push_back(amount / s);
}

double Bounds::rate(Bound bound, const Timing& timing) {
  if (!measurable()) return 0;
  // Bandwidth of memory, not of a cache: at least 64 MiB of traffic.
  constexpr double large = 64 << 20;
  const auto found =
      std::find_if(rates_.rbegin(), rates_.rend(), [&](const auto& r) { return r.first.first == bound; });
  if (found == rates_.rend() || (bound != Bound::compute && found->first.second < large)) {
    const Probe* p = probe(bound, 2 * large);
    add(bound, p->amount, measure({p->side}, timing)[0]);
  }
  const auto best = std::find_if(rates_.rbegin(), rates_.rend(), [&](const auto& r) { return r.first.first == bound; });
  return median(best->second);
}

}  // namespace heddle::bench
