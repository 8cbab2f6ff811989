# Warnings and sanitizers for one of Heddle's own targets.
function(heddle_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers
    $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)  # GCC 12 reports it inside std::string (its bug 105651)
  if(HEDDLE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer -g1)
    target_link_options(${target} PRIVATE -fsanitize=${HEDDLE_SANITIZE})
  endif()
endfunction()
