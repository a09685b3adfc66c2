// The resolved settings of one run: every key of every section, checked, defaults filled in.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "parley/base/config.h"
#include "parley/engine/catalogue.h"

namespace parley {

struct Settings {
  Options run, data, partition, model, client, server, method, aggregate, stages, evaluate, store;
  Options network;             // how fast the simulated machines and links are
  Options graph, peer;         // checked always, a part of the run only among peers
  Options serve;               // checked always, never a part of the run: how a server waits for its nodes
  bool among_peers = false;    // whether the method is one of peers, without a server
  bool network_given = false;  // whether the file says anything of [network]

  // Sections that the file has and this method does not use: "peer".
  std::vector<std::string> unused = {};

  // As an experiment file that gives the same run again; what does nothing in it is left out.
  std::string to_toml() const;
  // The sections by name, in the order of the file.
  std::vector<std::pair<std::string, const Options*>> sections() const;
};

// Throws InputError with file, line, key and remedy. Names in `config` are looked up in the catalogue; every key of
// the file must be known.
Settings resolve(Config config, const Catalogue& catalogue);

// The keys of a section that do not depend on what is chosen in it; for the reference page.
struct SectionAbout {
  std::string name;
  std::string meaning;
  std::vector<Option> options;
  std::string chosen_by;  // the key that adds further options ("kind"), or ""
};
std::vector<SectionAbout> sections(const Catalogue& catalogue);

}  // namespace parley
