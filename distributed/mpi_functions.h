// MpiFunctions: what is used of an MPI library, found by name in a library that was opened.
//
// Purpose: no header of MPI is needed, and a program starts without one. Two families of libraries differ in what a
// handle is: Open MPI's are pointers to objects of the library, those of MPICH and of what follows its binary interface
// (Intel MPI, MVAPICH) are numbers. Some libraries can go on without processes that were lost (ULFM, User Level Failure
// Mitigation; Bland et al. 2013, "Post-failure recovery of MPI communication capability"), by calls that begin with
// MPIX. Thread safety: plain value.
#pragma once

#include <string>

namespace heddle::distributed {

template <class Handle>
struct MpiFunctions {
  int (*initialized)(int*);
  int (*finalized)(int*);
  int (*init_thread)(int*, char***, int, int*);
  int (*finalize)();
  int (*comm_dup)(Handle, Handle*);
  int (*comm_rank)(Handle, int*);
  int (*comm_size)(Handle, int*);
  int (*comm_set_errhandler)(Handle, Handle);
  int (*comm_get_attr)(Handle, int, void*, int*);
  int (*comm_group)(Handle, Handle*);
  int (*group_translate_ranks)(Handle, int, const int*, Handle, int*);
  int (*group_free)(Handle*);
  int (*allgather)(const void*, int, Handle, void*, int, Handle, Handle);
  int (*isend)(const void*, int, Handle, int, int, Handle, Handle*);
  int (*irecv)(void*, int, Handle, int, int, Handle, Handle*);
  int (*test)(Handle*, int*, void*);
  int (*iprobe)(int, int, Handle, int*, void*);
  int (*error_string)(int, char*, int*);
  int (*get_library_version)(char*, int*);
  // Of ULFM; null before find_recovery().
  int (*comm_revoke)(Handle) = nullptr;
  int (*comm_shrink)(Handle, Handle*) = nullptr;
  int (*comm_iagree)(Handle, int*, Handle*) = nullptr;

  Handle world{}, byte{}, errors_return{};
  void* status_ignore = nullptr;
  int any_source = -1, any_tag = -1, tag_limit_key = 0;
};

// Empty where the library lacks nothing; else the name of what it lacks.
std::string find_functions(void* library, MpiFunctions<void*>& functions);
std::string find_functions(void* library, MpiFunctions<int>& functions);
// The same of ULFM's.
std::string find_recovery(void* library, MpiFunctions<void*>& functions);
std::string find_recovery(void* library, MpiFunctions<int>& functions);

// Whether its handles are pointers.
bool is_open_mpi(void* library);

}  // namespace heddle::distributed
