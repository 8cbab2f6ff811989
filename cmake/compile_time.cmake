# What keeps a build from nothing short (CI has two cores): precompiled headers, and less optimisation where nothing is
# computed.
set(HEDDLE_STD_HEADERS <algorithm> <array> <cmath> <filesystem> <functional> <limits> <map> <memory> <mutex> <numeric> <optional> <set> <span> <string>
  <unordered_map> <utility> <variant> <vector>)

# heddle_precompile(target headers...): with HEDDLE_PCH.
function(heddle_precompile target)
  if(HEDDLE_PCH)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# The targets of this folder that are declared after it hold no code whose speed matters: -O1 where a release would take
# -O3. (In a macro, since options belong to a folder.)
macro(heddle_light_optimisation)
  if(CMAKE_CXX_FLAGS_RELEASE MATCHES "-O3")
    add_compile_options($<$<CONFIG:Release>:-O1>)
  endif()
endmacro()
