__kernel __attribute__((reqd_work_group_size(64, 1, 1)))
void sums(__global const float* x, __global float* y, uint N) {
  __local float part[64];
  uint lane = get_local_id(0);
  part[lane] = get_global_id(0) < N ? x[get_global_id(0)] : 0.0f;
  for (uint half_width = 32; half_width > 0; half_width /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (lane < half_width) part[lane] += part[lane + half_width];
  }
  if (lane == 0) y[get_group_id(0)] = part[0];
}
