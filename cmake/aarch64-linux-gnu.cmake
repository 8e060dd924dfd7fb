# Cross build for AArch64 with Debian's compiler (g++-aarch64-linux-gnu); programs run under qemu-user.
# Headers in /usr/include are those of this computer too: with packages of headers alone that is fine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
