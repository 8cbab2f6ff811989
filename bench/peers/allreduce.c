// What MPI_Allreduce of floats in the host's memory takes: `mpirun -n 2 allreduce ELEMENTS ROUNDS` prints the median in
// microseconds on rank 0 (tools/calls_check.sh psum). Compiled by mpicc, by that script alone.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const int elements = atoi(argv[1]), rounds = atoi(argv[2]);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  float* mine = malloc(sizeof(float) * (size_t)elements);
  float* sum = malloc(sizeof(float) * (size_t)elements);
  double* took = malloc(sizeof(double) * (size_t)rounds);
  for (int i = 0; i < elements; ++i) mine[i] = (float)rank + 0.5f, sum[i] = 0;
  for (int round = 0; round < rounds; ++round) {
    const double start = MPI_Wtime();
    MPI_Allreduce(mine, sum, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    took[round] = 1e6 * (MPI_Wtime() - start);
  }
  qsort(took, (size_t)rounds, sizeof(double), compare);
  if (rank == 0) printf("ok %.2f us\n", took[rounds / 2]);
  MPI_Finalize();
  return 0;
}
