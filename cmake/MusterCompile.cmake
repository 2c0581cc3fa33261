# Compile settings shared by every target, and the functions that declare one.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE)
  # What ccache asks for where a header is precompiled.
  set(ccache ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${MUSTER_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${ccache})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ccache})
endif()

add_library(muster_flags INTERFACE)
target_include_directories(muster_flags INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(
  muster_flags
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wsign-conversion
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wold-style-cast
            -Wimplicit-fallthrough
            -Wswitch-enum)
# At -O2 g++ 12 sees uninitialized members in the alternatives of a std::variant that is being moved.
target_compile_options(muster_flags INTERFACE $<$<CONFIG:Release>:-Wno-maybe-uninitialized>)
if(MUSTER_WERROR)
  target_compile_options(muster_flags INTERFACE -Werror)
endif()
if(MUSTER_SANITIZE)
  # A target with the property MUSTER_PLAIN is left alone: what a foreign program loads.
  set(sanitized "$<NOT:$<BOOL:$<TARGET_PROPERTY:MUSTER_PLAIN>>>")
  # The four checks taken out double the time of a build; AddressSanitizer sees what matters of them.
  target_compile_options(
    muster_flags INTERFACE $<${sanitized}:-fsanitize=${MUSTER_SANITIZE}>
                           $<${sanitized}:-fno-sanitize=null,vptr,alignment,object-size>
                           $<${sanitized}:-fno-omit-frame-pointer>
                           $<${sanitized}:-fno-sanitize-recover=all>)
  target_link_options(muster_flags INTERFACE $<${sanitized}:-fsanitize=${MUSTER_SANITIZE}>)
else()
  # Fortify needs optimisation and does not mix with AddressSanitizer.
  target_compile_options(
    muster_flags INTERFACE -fstack-protector-strong
                           $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
                           $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=2>)
  target_link_options(muster_flags INTERFACE -Wl,-z,relro,-z,now,-z,noexecstack)
endif()

# muster_library(NAME SOURCES ... DEPS ...): a static library of one folder.
function(muster_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC muster_flags ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
endfunction()

# muster_program(NAME SOURCES ... DEPS ... [STATIC]): an executable in bin/. STATIC ones are linked
# without any shared library when MUSTER_STATIC is on, so that they run in any container.
function(muster_program name)
  cmake_parse_arguments(arg "STATIC" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE muster_flags ${arg_DEPS})
  if(arg_STATIC AND MUSTER_STATIC)
    target_link_options(${name} PRIVATE -static)
    set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
endfunction()

# muster_test(NAME LEVEL unit SOURCES ... DEPS ... [TIMEOUT s] [ARGS ...]): a GoogleTest program,
# registered as one ctest entry with the level as label.
# Its headers come precompiled from tests/support.
function(muster_test name)
  cmake_parse_arguments(arg "" "LEVEL;TIMEOUT" "SOURCES;DEPS;ARGS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE muster_flags ${arg_DEPS} GTest::gtest GTest::gmock
                                        GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM muster_test_headers)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS ${arg_LEVEL} TIMEOUT ${arg_TIMEOUT})
endfunction()
