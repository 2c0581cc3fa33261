# muster_grpc: gRPC and Protobuf, shared or (MUSTER_STATIC) from Debian's archives. Debian's CMake
# package names only the shared libraries, so the static list is spelt out here.
find_package(Threads REQUIRED)
find_program(MUSTER_PROTOC protoc REQUIRED)
find_program(MUSTER_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)

add_library(muster_protobuf INTERFACE)
target_link_libraries(muster_protobuf INTERFACE protobuf Threads::Threads)

add_library(muster_grpc INTERFACE)
if(MUSTER_STATIC)
  # Full paths: by name, CMake would switch back to shared libraries behind them.
  foreach(name grpc++ grpc gpr address_sorting upb protobuf cares re2 ssl crypto z)
    find_library(MUSTER_ARCHIVE_${name} NAMES lib${name}.a REQUIRED)
    list(APPEND muster_archives ${MUSTER_ARCHIVE_${name}})
  endforeach()
  get_filename_component(muster_archive_folder ${MUSTER_ARCHIVE_grpc} DIRECTORY)
  file(GLOB muster_absl_archives ${muster_archive_folder}/libabsl_*.a)
  list(FILTER muster_absl_archives EXCLUDE REGEX "flags_parse|flags_usage|benchmark|_test")
  # The archives refer to one another in circles.
  target_link_libraries(
    muster_grpc INTERFACE -Wl,--start-group ${muster_archives} ${muster_absl_archives}
                          -Wl,--end-group dl m Threads::Threads)
else()
  # gRPC's headers use absl::Mutex inline.
  target_link_libraries(muster_grpc INTERFACE grpc++ grpc gpr protobuf absl_synchronization
                                              Threads::Threads)
endif()

# muster_proto_library(NAME PROTOS ...): messages and services generated from proto/ files, compiled
# without our warnings and, as the libraries they call, without sanitizers.
function(muster_proto_library name)
  cmake_parse_arguments(arg "" "" "PROTOS" ${ARGN})
  set(out ${CMAKE_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${out})
  foreach(proto ${arg_PROTOS})
    get_filename_component(folder ${proto} DIRECTORY)
    get_filename_component(stem ${proto} NAME_WE)
    set(base ${out}/${folder}/${stem})
    add_custom_command(
      OUTPUT ${base}.pb.cc ${base}.pb.h ${base}.grpc.pb.cc ${base}.grpc.pb.h
      COMMAND ${MUSTER_PROTOC} -I ${CMAKE_CURRENT_SOURCE_DIR} --cpp_out=${out} --grpc_out=${out}
              --plugin=protoc-gen-grpc=${MUSTER_GRPC_PLUGIN} ${CMAKE_CURRENT_SOURCE_DIR}/${proto}
      DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${proto}
      VERBATIM)
    list(APPEND sources ${base}.pb.cc ${base}.grpc.pb.cc)
  endforeach()
  add_library(${name} STATIC ${sources})
  target_include_directories(${name} SYSTEM PUBLIC ${out})
  target_link_libraries(${name} PUBLIC muster_grpc)
endfunction()
