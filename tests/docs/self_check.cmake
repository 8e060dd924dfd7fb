# Proves that check.cmake sees what it is there for.
#   cmake -D WORK=<scratch folder> -P self_check.cmake
cmake_minimum_required(VERSION 3.25)

file(REMOVE_RECURSE ${WORK})
set(whole "#include <stdio.h>\nint main(void) { char a[2] = {0}; puts(a); return a[0]; }\n")
set(part "  int b = 1;\n  if (b) { b = 2; }\n")
file(WRITE ${WORK}/whole.c "${whole}")
file(WRITE ${WORK}/part.cpp "void f() {\n  // [middle]\n${part}  // [middle]\n}\n")

set(wrong "")
function(expect outcome document)
  file(WRITE ${WORK}/page.md "${document}")
  execute_process(COMMAND ${CMAKE_COMMAND} -D ROOT=${WORK} -D DOCUMENT=page.md ${ARGN}
    -P ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/check.cmake
    RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if((outcome STREQUAL "pass" AND NOT code EQUAL 0) OR (outcome STREQUAL "fail" AND code EQUAL 0))
    set(wrong "${wrong}\n  should ${outcome}:\n${document}\n  said: ${text}" PARENT_SCOPE)
  endif()
endfunction()

set(quote_whole "<!-- file: whole.c -->\n```c\n")
set(quote_part "<!-- file: part.cpp lines middle -->\n\n```cpp\n")
expect(pass "Text; [more] text\n\n${quote_whole}${whole}```\nand\n${quote_part}${part}```\nend\n" -D QUOTES=2)
expect(pass "${quote_whole}${whole}```\n")
expect(pass "```sh\n./run demo\n```\n")
expect(fail "${quote_whole}${whole}```\n" -D QUOTES=2)
expect(fail "${quote_whole}int main(void) {}\n```\n")
expect(fail "${quote_whole}```\n")
expect(fail "${quote_whole}${whole}\n```\n")
expect(fail "${quote_whole}${whole}")
expect(fail "${quote_part}  int b = 1;\n```\n")
expect(fail "<!-- file: part.cpp lines no_such_tag -->\n```cpp\n${part}```\n")
expect(fail "<!-- file: no_such_file.c -->\n```c\n${whole}```\n")
expect(fail "```c\n${whole}```\n")
expect(fail "${quote_whole}${whole}```\nmore\n```cpp\nint x = 0;\n```\n")
if(wrong)
  message(FATAL_ERROR "check.cmake is wrong about:${wrong}")
endif()
