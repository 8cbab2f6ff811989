#include "heddle/distributed/mpi_functions.h"

#include <initializer_list>

#include "heddle/core/base/system/library.h"

namespace heddle::distributed {
namespace {

template <class Function>
void find(void* library, const char* name, Function& function, std::string& lacking) {
  function = reinterpret_cast<Function>(os::find_symbol(library, name));
  if (function == nullptr && lacking.empty()) lacking = name;
}

template <class Handle>
std::string find_all(void* library, MpiFunctions<Handle>& f) {
  std::string lacking;
  find(library, "MPI_Initialized", f.initialized, lacking);
  find(library, "MPI_Finalized", f.finalized, lacking);
  find(library, "MPI_Init_thread", f.init_thread, lacking);
  find(library, "MPI_Finalize", f.finalize, lacking);
  find(library, "MPI_Comm_dup", f.comm_dup, lacking);
  find(library, "MPI_Comm_rank", f.comm_rank, lacking);
  find(library, "MPI_Comm_size", f.comm_size, lacking);
  find(library, "MPI_Comm_set_errhandler", f.comm_set_errhandler, lacking);
  find(library, "MPI_Comm_get_attr", f.comm_get_attr, lacking);
  find(library, "MPI_Comm_group", f.comm_group, lacking);
  find(library, "MPI_Group_translate_ranks", f.group_translate_ranks, lacking);
  find(library, "MPI_Group_free", f.group_free, lacking);
  find(library, "MPI_Allgather", f.allgather, lacking);
  find(library, "MPI_Isend", f.isend, lacking);
  find(library, "MPI_Irecv", f.irecv, lacking);
  find(library, "MPI_Test", f.test, lacking);
  find(library, "MPI_Iprobe", f.iprobe, lacking);
  find(library, "MPI_Error_string", f.error_string, lacking);
  find(library, "MPI_Get_library_version", f.get_library_version, lacking);
  return lacking;
}

template <class Handle>
std::string find_recovery_in(void* library, MpiFunctions<Handle>& f) {
  std::string lacking;
  find(library, "MPIX_Comm_revoke", f.comm_revoke, lacking);
  find(library, "MPIX_Comm_shrink", f.comm_shrink, lacking);
  find(library, "MPIX_Comm_iagree", f.comm_iagree, lacking);
  return lacking;
}

constexpr const char* open_mpi_world = "ompi_mpi_comm_world";

}  // namespace

bool is_open_mpi(void* library) { return os::find_symbol(library, open_mpi_world) != nullptr; }

std::string find_functions(void* library, MpiFunctions<void*>& functions) {
  std::string lacking = find_all(library, functions);
  find(library, open_mpi_world, functions.world, lacking);
  find(library, "ompi_mpi_byte", functions.byte, lacking);
  find(library, "ompi_mpi_errors_return", functions.errors_return, lacking);
  return lacking;
}

// The numbers of MPICH's binary interface (ABI compatibility initiative, since MPICH 3.1).
std::string find_functions(void* library, MpiFunctions<int>& functions) {
  functions.world = 0x44000000;
  functions.byte = 0x4c00010d;
  functions.errors_return = 0x54000001;
  functions.status_ignore = reinterpret_cast<void*>(1);
  functions.any_source = -2;
  functions.tag_limit_key = 0x64400001;
  return find_all(library, functions);
}

std::string find_recovery(void* library, MpiFunctions<void*>& functions) {
  return find_recovery_in(library, functions);
}
std::string find_recovery(void* library, MpiFunctions<int>& functions) { return find_recovery_in(library, functions); }

}  // namespace heddle::distributed
