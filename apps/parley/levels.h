// Which processors a program is built for: the portable build, one program for every level of x86-64 and the choice
// between them. Where the processor is too old for the only one there is, levels.cc says so before main() begins.
#pragma once

namespace parley::app {

// Goes on as the program beside this one that is built for the highest level the CPU can run ("parley-x86-64-v3"), if
// there is one; returns otherwise. The environment variable PARLEY_LEVEL names a lower one, for tests; another name
// ends the program.
void run_for_this_cpu(char** arguments);

}  // namespace parley::app
