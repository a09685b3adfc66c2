# cmake -DFOLDER=… -DOUTPUT=… -P embed.cmake: the parts of the report page as string constants in one C++ file.
set(text "// Made by embed.cmake from report_page.{html,css,js}; change those.\n#include \"parley/report/page/page.h\"\n\n")
string(APPEND text "namespace parley::report_page {\n")
foreach(part html css js)
  file(READ ${FOLDER}/report_page.${part} content)
  string(APPEND text "const std::string_view ${part} = R\"~PART~(${content})~PART~\";\n")
endforeach()
string(APPEND text "}  // namespace parley::report_page\n")
file(WRITE ${OUTPUT} "${text}")
