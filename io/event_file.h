// EventFile: a file that TensorBoard shows: scalars, histograms, texts, images, a graph.
//
// Format: records of length (u64), masked CRC-32C of the length, data, masked CRC-32C of the data, all little-endian;
// the data are messages of TensorFlow's event.proto, summary.proto and graph.proto in protobuf's wire format, of which
// the few fields that are needed are written here. Invariants: each call appends one whole record, which readers see at
// once; a record that a killed process left unfinished fails its checksum and is passed over by readers. Tags name the
// charts; a '/' groups them. Errors: IoError. Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// Of a set of numbers: how many lie in each of equal parts of [min, max].
struct HistogramSummary {
  double min = 0, max = 0, sum = 0, sum_squares = 0;
  std::vector<double> counts;
};

// A vertex of the graph that is shown; a '/' in its name makes groups that can be folded.
struct GraphVertex {
  std::string name, op;
  std::vector<std::string> inputs;  // names
  std::vector<int64_t> shape;       // of its result
};

class EventFile {
 public:
  // A new file in `folder`, which is made where it is missing: TensorBoard shows all files of a folder as one run.
  explicit EventFile(const std::string& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void scalar(std::string_view tag, int64_t step, double value);
  void histogram(std::string_view tag, int64_t step, const HistogramSummary& histogram);
  // Shown as Markdown.
  void text(std::string_view tag, int64_t step, std::string_view text);
  // An encoded PNG of that size.
  void image(std::string_view tag, int64_t step, int64_t height, int64_t width, int64_t channels, std::string_view png);
  void graph(const std::vector<GraphVertex>& vertices);
  const std::string& path() const { return path_; }

 private:
  void append(std::string_view event) const;
  void summary(int64_t step, std::string_view value) const;

  std::string path_;
  int descriptor_ = -1;
};

}  // namespace heddle
