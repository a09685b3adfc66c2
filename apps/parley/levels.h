// The portable build: one program for every level of x86-64, and the choice between them.
#pragma once

namespace parley::app {

// Goes on as the program beside this one that is built for the highest level the CPU can run ("parley-x86-64-v3"), if
// there is one; returns otherwise. The environment variable PARLEY_LEVEL names a lower one, for tests.
void run_for_this_cpu(char** arguments);

}  // namespace parley::app
