# Finds what the vulkan backend is built with; replaced by its author.
set(HEDDLE_VULKAN_FOUND FALSE)
heddle_backend(VULKAN backend_vulkan make_vulkan_backend HEDDLE_VULKAN_FOUND "the vulkan headers")
