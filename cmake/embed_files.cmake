# Script mode: writes OUTPUT, a C++ file whose function FUNCTION, declared in HEADER, gives each of FILES as a raw string literal.
# Long files are split into several literals, since compilers limit the length of one.
string(CONCAT text "#include \"heddle/${HEADER}\"\n\nnamespace heddle {\n\n"
  "const std::vector<BuiltinFile>& ${FUNCTION}() {\n  static const std::vector<BuiltinFile> files = {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(LENGTH "${content}" length)
  set(literal "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${content}" ${at} 8000 part)
    string(APPEND literal "R\"hk~(${part})hk~\"\n")
    math(EXPR at "${at} + 8000")
  endwhile()
  string(APPEND text "    {\"${name}\", ${literal}},\n")
endforeach()
string(APPEND text "  };\n  return files;\n}\n\n}  // namespace heddle\n")
file(WRITE ${OUTPUT} "${text}")
