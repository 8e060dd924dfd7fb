// Compiled for its precompiled headers alone (CMakeLists.txt).
