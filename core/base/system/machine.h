// The machine, the system and the process that this runs in; paths and texts are UTF-8 on every system.
//
// Thread safety: may be called from any thread, but set_variable(), as setenv(3), from a program's only one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::os {

// Of main memory; 0 where the system does not say.
uint64_t memory_bytes();
std::string host_name();
// "Linux 6.1.0 x86_64".
std::string system_name();
// "" where the system does not say.
std::string processor_name();
// What a driver's answer depends on beside its files: the system's release, the user, which root it sees.
std::string system_stamp();

// True for the first process of this machine that asks for `name`, until it has ended, and false for all others until
// then; asked once for each name. True where the system has no such names (elsewhere than on Linux), and for the first
// of each network namespace.
bool hold_on_machine(const char* name);

int process_id();
// This program's file, to be started again.
std::string program_file();
// The words of the command line: `argv` where the system hands UTF-8 over, else as the system has them.
std::vector<std::string> arguments(int argc, char** argv);
// Those of the process; empty where the system does not say.
std::vector<std::string> command_line();

// "NAME=value" each.
std::vector<std::string> variables();
// One that is set to nothing is one, on every system.
std::optional<std::string> variable(const char* name);
// Without a value it is removed.
void set_variable(const char* name, const std::optional<std::string>& value);
// What separates the folders in variables such as PATH.
extern const char list_separator;
// What a program's file name ends with.
extern const char* const program_suffix;
// Where a user's caches lie, without a separator at its end; empty where the user has no such folder.
std::string user_cache_folder();

// Memory at a multiple of `alignment` (a power of two), null where there is none; given back by free_aligned() alone.
void* allocate_aligned(size_t alignment, size_t bytes);
void free_aligned(void* memory);
// Asks for pages of some MB where `bytes` from `memory` on, not touched yet, hold whole ones; a hint.
void prefer_large_pages(void* memory, size_t bytes);
// Whether a driver handed out what the system's own call says when it maps nothing.
bool is_failed_mapping(const void* mapping);

}  // namespace heddle::os
