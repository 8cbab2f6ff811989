# Finds what the opencl backend is built with; replaced by its author.
set(HEDDLE_OPENCL_FOUND FALSE)
heddle_backend(OPENCL backend_opencl make_opencl_backend HEDDLE_OPENCL_FOUND "the opencl headers")
