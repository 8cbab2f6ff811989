// Compiles volk's loader into the library; its function pointers are hidden symbols.
#define VOLK_IMPLEMENTATION
#include <volk.h>
