// The process of the `heddle` program: all that main() does.
#pragma once

namespace heddle::tools {

// Takes the numbers of closed standard streams, runs the command, and gives the exit code; output that was lost counts.
// An exception that nobody can catch for want of memory (thrown in a destructor: nlohmann's need some) ends the process
// with the line and the code of any other one. Once in a process.
int run_process(int argc, char** argv);

}  // namespace heddle::tools
