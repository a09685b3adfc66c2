// Plays as XML (Bosak's Shakespeare): PLAY, TITLE, ACT, SCENE, SPEECH, SPEAKER, LINE.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace parley {

// All that one character says in one play.
struct Role {
  std::string play;     // the title
  std::string speaker;  // as the play spells it
  std::string text;     // the lines in order, each ended by '\n'; stage directions are left out
  std::size_t speeches = 0;
};

// The roles of one play in the order in which they begin to speak. What several say together belongs to the first of
// them. Throws InputError "name:line: …" (no XML, no play, lines that nobody speaks).
std::vector<Role> parse_play(std::string_view xml, const std::string& name);

// The roles of every .xml file of a folder, in the order of the files' names.
std::vector<Role> read_plays(const std::filesystem::path& folder);

}  // namespace parley
