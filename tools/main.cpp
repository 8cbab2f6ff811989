#include "tools/process.h"

int main(int argc, char** argv) { return heddle::tools::run_process(argc, argv); }
