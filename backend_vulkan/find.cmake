# Finds what the Vulkan backend is built with: headers (vulkan, volk) and the static libraries of glslang. The Vulkan
# loader itself is opened at run time, so nothing here links libvulkan.
set(HEDDLE_VULKAN_FOUND FALSE)
set(heddle_vulkan_missing "")
set(heddle_vulkan_libraries "")
set(heddle_vulkan_archives "")

if(NOT HEDDLE_VULKAN STREQUAL "OFF")
  find_path(HEDDLE_VULKAN_INCLUDE vulkan/vulkan.h)
  find_path(HEDDLE_VOLK_INCLUDE volk.c)
  find_path(HEDDLE_GLSLANG_INCLUDE glslang/Public/ShaderLang.h)
  foreach(wanted "HEDDLE_VULKAN_INCLUDE=vulkan/vulkan.h (libvulkan-dev)" "HEDDLE_VOLK_INCLUDE=volk.h and volk.c (libvulkan-volk-dev)"
                 "HEDDLE_GLSLANG_INCLUDE=glslang's headers (glslang-dev)")
    string(REGEX MATCH "^([^=]+)=(.*)$" _ "${wanted}")
    if(NOT ${CMAKE_MATCH_1})
      list(APPEND heddle_vulkan_missing "${CMAKE_MATCH_2}")
    endif()
  endforeach()
  # Newer glslang folds some of these into libglslang, so only the first two must exist. SPIRV-Tools comes from
  # spirv-tools: glslang's SPIR-V writer refers to its optimizer where it was built with it, as Debian's is.
  foreach(library SPIRV glslang SPIRV-Tools-opt SPIRV-Tools glslang-default-resource-limits MachineIndependent GenericCodeGen
                  OGLCompiler OSDependent HLSL)
    find_library(HEDDLE_GLSLANG_${library} NAMES lib${library}.a ${library})
    mark_as_advanced(HEDDLE_GLSLANG_${library})
    if(HEDDLE_GLSLANG_${library})
      list(APPEND heddle_vulkan_libraries ${HEDDLE_GLSLANG_${library}})
      list(APPEND heddle_vulkan_archives lib${library}.a)
    elseif(library MATCHES "^(SPIRV|glslang)$")
      list(APPEND heddle_vulkan_missing "lib${library} (glslang-dev)")
    endif()
  endforeach()
  if(NOT heddle_vulkan_missing)
    set(HEDDLE_VULKAN_FOUND TRUE)
  endif()
endif()

list(JOIN heddle_vulkan_missing ", " heddle_vulkan_missing)
set(heddle_vulkan_includes ${HEDDLE_VULKAN_INCLUDE} ${HEDDLE_VOLK_INCLUDE} ${HEDDLE_GLSLANG_INCLUDE})
list(JOIN heddle_vulkan_libraries "," heddle_vulkan_group)
set(heddle_vulkan_group "$<LINK_GROUP:RESCAN,${heddle_vulkan_group}>")
heddle_backend(VULKAN backend_vulkan make_vulkan_backend HEDDLE_VULKAN_FOUND "${heddle_vulkan_missing}"
  COMPILER compiler.cpp glsl_compiler.cpp int64_words.cpp INCLUDES ${heddle_vulkan_includes} LIBRARIES ${heddle_vulkan_group} Threads::Threads)

if(make_vulkan_backend IN_LIST HEDDLE_BACKENDS)
  target_link_libraries(heddle PRIVATE "${heddle_vulkan_group}")
  # glslang is built without run-time type information, which UBSan's check of virtual calls would look up.
  set_source_files_properties(${PROJECT_SOURCE_DIR}/backend_vulkan/glsl_compiler.cpp PROPERTIES COMPILE_OPTIONS -fno-sanitize=vptr)
  # Tests ask with this whether backend_vulkan's own headers have an implementation behind them.
  target_compile_definitions(heddle PUBLIC $<BUILD_INTERFACE:HEDDLE_HAS_VULKAN=1>)
  if(BUILD_SHARED_LIBS AND NOT APPLE)
    # A driver may bring another version of SPIRV-Tools; ours must not be found in its place.
    list(JOIN heddle_vulkan_archives ":" heddle_vulkan_archives)
    target_link_options(heddle PRIVATE "LINKER:--exclude-libs,${heddle_vulkan_archives}")
  endif()
endif()
