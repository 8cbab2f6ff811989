// A process that `heddle launch` started: what the launcher tells it.
//
// Purpose: the launcher is on another host, maybe, and between the two stands mpirun, which hands no signal on without
// ending the ranks and takes away their output; what it does hand on is standard input, to the first rank. A byte there
// asks to save and end. That the launcher is gone is said by the end of that input, which mpirun of Open MPI 5 does not
// hand on, and by its number among the processes, on its own host. Variables: HEDDLE_LAUNCHED says that there is one,
// and lists the devices of ranks, if any; HEDDLE_LAUNCHER is its host and number. Thread safety: none.
#pragma once

#include <atomic>
#include <string>
#include <thread>

namespace heddle::tools {

inline constexpr const char *launched_variable = "HEDDLE_LAUNCHED", *launcher_variable = "HEDDLE_LAUNCHER";

bool is_launched();
// What the launcher says of itself in that variable: "host 1234".
std::string name_of_launcher();
// The device for that rank; empty where the launcher names none. ValueError where it names none for this one.
std::string launched_device(int rank);

// What a rank of `heddle launch --elastic` tells the launcher, whose mpirun no longer says how its ranks ended: a line
// on standard error that the launcher keeps to itself. Nothing without a launcher.
inline constexpr const char* launcher_over = "over";              // the run is, and its files are written
inline constexpr const char* launcher_failed = "failed";          // a rank ends by a fault of its own: all do
inline constexpr const char* launcher_first_lost = "first lost";  // who listens to the launcher
inline constexpr const char* launcher_line = "heddle-launch: ";
void tell_launcher(const char* what);

// Before there are other threads: the ranks of a host share its processors, and tell drivers that compute on them.
void keep_to_own_processors();

// While it lives, `asked` is called for each request of the launcher, and when it is gone, on a thread of its own.
class LauncherWatch {
 public:
  // `hears`: of the rank that has what the launcher says as its input.
  LauncherWatch(void (*asked)(), bool hears);
  ~LauncherWatch();
  LauncherWatch(const LauncherWatch&) = delete;
  LauncherWatch& operator=(const LauncherWatch&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace heddle::tools
