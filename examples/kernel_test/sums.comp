#version 450
layout(local_size_x = 64) in;
layout(std430, set = 0, binding = 0) readonly buffer X { float x[]; };
layout(std430, set = 0, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Constants { uint N; };
shared float part[64];

void main() {
  uint lane = gl_LocalInvocationID.x;
  part[lane] = gl_GlobalInvocationID.x < N ? x[gl_GlobalInvocationID.x] : 0.0;
  for (uint half_width = 32; half_width > 0; half_width /= 2) {
    barrier();
    if (lane < half_width) part[lane] += part[lane + half_width];
  }
  if (lane == 0) y[gl_WorkGroupID.x] = part[0];
}
