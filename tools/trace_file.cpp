#include "tools/trace_file.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tools/cli.h"

namespace heddle::tools {
namespace {

// Whole nanoseconds, so that what touches in one place does not overlap by a rounding.
double microseconds(double seconds) { return std::round(seconds * 1e9) / 1e3; }

Json name_event(const char* what, int process, int thread, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

struct Event {
  double start = 0, end = 0;
  int depth = 0;
  Json json;
};

Event event(const std::string& name, const char* category, int process, int thread, double start, double end, int depth,
            Json arguments) {
  Event e{microseconds(start), microseconds(end), depth, {}};
  e.json = {{"ph", "X"},
            {"name", name},
            {"cat", category},
            {"pid", process},
            {"tid", thread},
            {"ts", e.start},
            {"dur", std::round((e.end - e.start) * 1e3) / 1e3}};
  e.json["args"] = std::move(arguments);
  return e;
}

Json arguments_of(const KernelFacts& facts, double seconds) {
  Json json{{"computes", facts.ops}, {"bytes", facts.bytes()}, {"flops", facts.flops}};
  if (seconds > 0) json.update({{"GB/s", facts.bytes() / seconds * 1e-9}, {"GFLOP/s", facts.flops / seconds * 1e-9}});
  if (!facts.lines.empty()) json["where"] = facts.lines;
  return json;
}

}  // namespace

std::string trace_json(const Profile& profile) {
  std::vector<Event> events;
  Json all = Json::array();
  all.push_back(name_event("process_name", 0, 0, "host"));
  int threads = 0;
  for (const HostRun& run : profile.host) {
    threads = std::max(threads, run.thread + 1);
    events.push_back(event(run.name, "host", 0, run.thread, run.start, run.end, run.depth, Json::object()));
  }
  for (int thread = 0; thread < threads; ++thread)
    all.push_back(name_event("thread_name", 0, thread, thread == 0 ? "main" : "thread " + std::to_string(thread)));
  std::map<std::string, int> processes;
  for (const Submission& s : profile.submissions)
    processes.try_emplace(s.device, static_cast<int>(processes.size()) + 1);
  for (const auto& [device, process] : processes) {
    all.push_back(name_event("process_name", process, 0, device));
    all.push_back(name_event("thread_name", process, 0, "kernels"));
  }
  for (size_t i = 0; i < profile.submissions.size(); ++i) {
    const Submission& s = profile.submissions[i];
    events.push_back(event("submission", "device", processes.at(s.device), 0, s.start, s.end, 0,
                           {{"number", i}, {"waited_us", microseconds(s.start - s.submitted)}}));
  }
  for (const KernelSpan& run : profile.runs) {
    const ProfiledKernel& kernel = profile.kernels[run.kernel];
    events.push_back(event(kernel.facts.name, "kernel", processes.at(kernel.device), 0, run.start, run.end, 1,
                           arguments_of(kernel.facts, run.end - run.start)));
  }
  // What contains others comes before them.
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    if (a.start != b.start) return a.start < b.start;
    return a.depth < b.depth;
  });
  for (Event& e : events) all.push_back(std::move(e.json));
  return Json{{"displayTimeUnit", "ms"}, {"traceEvents", std::move(all)}}.dump() + "\n";
}

}  // namespace heddle::tools
