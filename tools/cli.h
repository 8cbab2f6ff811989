// What the subcommands of `heddle` share.
//
// Purpose: each tools/<command>.cpp has one function that registers its subcommand with options, help and an example.
// Exit codes: 0 success, 2 a mistake of the user (bad option or input), 1 an internal fault, another fault of a device,
// or standard output that could not be written (tools/output.h), 3 out of memory, of a device or of the host, 4 a
// device was lost or did not answer in time, 5 a driver refused a kernel. Each ends with one line on stderr. 130
// interrupted by Ctrl-C, 143 by SIGTERM, after saving. Thread safety: none.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "heddle/core/device/context.h"

namespace heddle::tools {

using Json = nlohmann::ordered_json;

inline constexpr int exit_user_error = 2;
inline constexpr int exit_internal_error = 1;
inline constexpr int exit_out_of_memory = 3;
inline constexpr int exit_device_lost = 4;
inline constexpr int exit_compile_error = 5;
inline constexpr int exit_signalled = 128;  // and the signal's number (tools/interrupt.h)

// The end of what a command says in a build without ONNX.
inline constexpr std::string_view without_onnx =
    ": it was left out (HEDDLE_ONNX=OFF; tools/build.sh makes all), or there was no protobuf (libonnx-dev, "
    "libprotobuf-dev, protobuf-compiler)";

// Subcommands write their exit code here; it outlives them.
struct Cli {
  CLI::App app{"Heddle: train and run neural networks on any vendor's device.", "heddle"};
  int exit_code = 0;
};

// The program: parses, runs, and gives the exit code; what fails becomes a line on stderr.
int run_command(int argc, char** argv);

void add_train(Cli& cli);
void add_resume(Cli& cli);
void add_launch(Cli& cli);
void add_eval(Cli& cli);
void add_predict(Cli& cli);
void add_devices(Cli& cli);
void add_ops(Cli& cli);
void add_dump(Cli& cli);
void add_plan(Cli& cli);
void add_summary(Cli& cli);
void add_import(Cli& cli);
void add_export(Cli& cli);
void add_compile(Cli& cli);
void add_run(Cli& cli);
void add_profile(Cli& cli);
void add_kernel(Cli& cli);
void add_bench(Cli& cli);
void add_tune(Cli& cli);
void add_cache(Cli& cli);
void add_generate(Cli& cli);
void add_finetune(Cli& cli);
void add_chat(Cli& cli);
void add_tokenize(Cli& cli);
void add_pack(Cli& cli);
void add_report(Cli& cli);
void add_completion(Cli& cli);
void add_man(Cli& cli);
void add_certify(Cli& cli);
void add_doctor(Cli& cli);
void add_version(Cli& cli);

// --device and --json, with the same words everywhere.
void add_device_option(CLI::App& command, std::string& device);
void add_json_option(CLI::App& command, bool& json);
// --memory-budget 512MiB: bytes, with or without a unit.
void add_budget_option(CLI::App& command, uint64_t& bytes);
// Opens the named device, or the default one, and makes it the default of this process. `computes`: refuse the null
// device.
DeviceContext& open_device(const std::string& name, bool computes);

// One JSON value, one line, flushed: a reader sees it at once. Numbers that are not finite become null.
void print_json(const Json& value);

// One line: line breaks become spaces.
std::string one_line(std::string text);

}  // namespace heddle::tools
