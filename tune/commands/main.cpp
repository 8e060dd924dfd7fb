#include "tune/commands/commands.hpp"

int main(int argc, char** argv) { return ioattn::tune::run_command(argc, argv); }
