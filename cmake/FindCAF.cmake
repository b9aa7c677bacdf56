# SPDX-License-Identifier: Apache-2.0
# Finds the core module of the C++ Actor Framework and offers it as CAF::core. Debian's libcaf-dev 0.17.6 ships
# neither a CMake config nor a pkg-config file, so header and library are looked up by hand; a CAF that was
# installed with its own config is preferred.
find_package(CAF CONFIG QUIET COMPONENTS core)
if(TARGET CAF::core)
  set(CAF_FOUND TRUE)
  return()
endif()

find_path(CAF_INCLUDE_DIR caf/config.hpp)
find_library(CAF_CORE_LIBRARY caf_core)
mark_as_advanced(CAF_INCLUDE_DIR CAF_CORE_LIBRARY CAF_DIR)

if(CAF_INCLUDE_DIR)
  # CAF_VERSION is major * 10000 + minor * 100 + patch.
  file(STRINGS "${CAF_INCLUDE_DIR}/caf/config.hpp" caf_version_line REGEX "define +CAF_VERSION +[0-9]+")
  if(caf_version_line MATCHES "CAF_VERSION +([0-9]+)")
    math(EXPR caf_major "${CMAKE_MATCH_1} / 10000")
    math(EXPR caf_minor "${CMAKE_MATCH_1} / 100 % 100")
    math(EXPR caf_patch "${CMAKE_MATCH_1} % 100")
    set(CAF_VERSION ${caf_major}.${caf_minor}.${caf_patch})
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_CORE_LIBRARY CAF_INCLUDE_DIR VERSION_VAR CAF_VERSION)

if(CAF_FOUND)
  find_package(Threads REQUIRED)
  add_library(CAF::core UNKNOWN IMPORTED)
  set_target_properties(CAF::core PROPERTIES
    IMPORTED_LOCATION "${CAF_CORE_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${CAF_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES Threads::Threads)
endif()
