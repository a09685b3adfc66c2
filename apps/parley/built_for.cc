// Compiled as the rooms are. Constants only: nothing of this file may run before the processor is known.
#include "instruction_sets.h"

// A macro that is defined is replaced by 1, another stays its own name.
#define TEXT(words) #words
#define IS_DEFINED(name, macro) TEXT(macro)[0] == '1',

namespace parley::app {

const bool kBuiltFor[] = {PARLEY_INSTRUCTION_SETS(IS_DEFINED)};

}  // namespace parley::app
