# Warnings and sanitizers for one of Heddle's own targets.
function(heddle_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Wno-missing-field-initializers)
  if(HEDDLE_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer -g)
    target_link_options(${target} PRIVATE -fsanitize=${HEDDLE_SANITIZE})
  endif()
endfunction()
