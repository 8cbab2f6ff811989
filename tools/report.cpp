// heddle report
#include <fmt/format.h>

#include <memory>
#include <set>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/markup.h"
#include "heddle/core/base/path.h"
#include "heddle/io/atomic_file.h"
#include "tools/report_files.h"
#include "tools/report_run.h"

namespace heddle::tools {
namespace {

struct ReportOptions {
  std::vector<std::string> runs;
  std::string out;
  bool json = false;
};

// Runs of one name are called by their paths.
void tell_apart(Json& runs) {
  std::set<std::string> seen, twice;
  for (const Json& run : runs) {
    if (!seen.insert(run["name"].get<std::string>()).second) twice.insert(run["name"].get<std::string>());
  }
  for (Json& run : runs) {
    if (twice.contains(run["name"].get<std::string>())) run["name"] = run["path"];
  }
}

// JSON inside a script element: no '<' can end it.
std::string script_safe(const Json& value) {
  std::string out;
  for (const char c : value.dump(-1, ' ', false, Json::error_handler_t::replace))
    out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

std::string part(std::string_view name) {
  for (const BuiltinFile& file : report_files()) {
    if (file.name == name) return std::string(file.text);
  }
  throw Error(fmt::format("[report] {} is not part of this build", name));
}

// Nothing may be loaded from anywhere: the page is one file, and its policy says so.
std::string page_of(const Json& runs) {
  const std::string title = runs.size() == 1 ? runs[0]["name"].get<std::string>() : fmt::format("{} runs", runs.size());
  std::string text = fmt::format(
      "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<meta name=viewport "
      "content=\"width=device-width\">\n"
      "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'; script-src "
      "'unsafe-inline'; img-src data:\">\n<title>{} - heddle</title>\n",
      escape_markup(title));
  text += fmt::format(
      "<style>\n{}</style>\n</head>\n<body>\n<main></main>\n<script type=application/json id=runs>{}</script>\n",
      part("style.css"), script_safe(runs));
  return text +
         fmt::format("<script>\n\"use strict\";\n{}{}</script>\n</body>\n</html>\n", part("chart.js"), part("page.js"));
}

void report(const ReportOptions& options) {
  Json runs = Json::array();
  for (const std::string& folder : options.runs) runs.push_back(report_data(folder));
  tell_apart(runs);
  if (options.json) return print_json(runs);
  const std::string beside = (fs::path(options.runs[0]) / "report.html").string();
  const std::string path = !options.out.empty() ? options.out : options.runs.size() == 1 ? beside : "report.html";
  write_file_atomically(path, page_of(runs));
  fmt::print("{}\n", path);
}

}  // namespace

void add_report(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("report", "Draw a run, or compare several, on one HTML page that needs nothing else");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("runs", options->runs, "Folders of runs")->required()->type_name("RUN");
  command
      ->add_option("-o,--output", options->out,
                   "The page; default: report.html in the run's folder, or here for several runs")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "Print the data of the page instead");
  command->footer("Examples:\n  heddle report runs/char-gpt\n  heddle report runs/first runs/second -o compare.html");
  command->callback([options] { report(*options); });
}

}  // namespace heddle::tools
