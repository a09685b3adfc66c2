// Texts that are nested so deeply that reading them would exhaust the stack; no honest file is.
#pragma once

#include <string>
#include <string_view>

namespace parley {

// Throws InputError, naming `name`, when lists and objects of this JSON lie more than 64 deep. To be asked before the
// text is parsed; whatever else is wrong with it is the parser's to say.
void refuse_deep_json(std::string_view text, const std::string& name);

// The same for TOML, where also a key of many parts (a.b.c.…) makes tables within tables. `name` is the file.
void refuse_deep_toml(std::string_view text, const std::string& name);

}  // namespace parley
