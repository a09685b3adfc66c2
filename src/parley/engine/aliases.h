// Names that other frameworks and papers use for what is called otherwise here.
#pragma once

#include <string>
#include <string_view>

namespace parley {

// Where the thing of this name is found: "this is server.step = \"adam\" with method.name = \"fedavg\""; "" for a name
// that is not known elsewhere either. Case, '-' and '_' do not matter.
std::string known_elsewhere(std::string_view name);

}  // namespace parley
