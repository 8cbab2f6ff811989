# The cuda backend needs the headers of a CUDA toolkit (11.4 or newer) to be built; libcuda and NVRTC are loaded at run
# time.
find_package(CUDAToolkit QUIET)
find_path(HEDDLE_CUDA_INCLUDE_DIR NAMES cuda.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
find_path(HEDDLE_NVRTC_INCLUDE_DIR NAMES nvrtc.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
mark_as_advanced(HEDDLE_CUDA_INCLUDE_DIR HEDDLE_NVRTC_INCLUDE_DIR)
set(HEDDLE_CUDA_FOUND FALSE)
if(HEDDLE_CUDA_INCLUDE_DIR AND HEDDLE_NVRTC_INCLUDE_DIR)
  set(HEDDLE_CUDA_FOUND TRUE)
endif()
heddle_backend(CUDA backend_cuda make_cuda_backend HEDDLE_CUDA_FOUND "cuda.h and nvrtc.h of a CUDA toolkit"
  COMPILER compiler.cpp nvrtc.cpp INCLUDES ${HEDDLE_CUDA_INCLUDE_DIR} ${HEDDLE_NVRTC_INCLUDE_DIR})
if(make_cuda_backend IN_LIST HEDDLE_BACKENDS)
  # Tests ask with this whether backend_cuda's own headers (nvrtc.h) have an implementation behind them.
  target_compile_definitions(heddle PUBLIC $<BUILD_INTERFACE:HEDDLE_HAS_CUDA=1>)
endif()
