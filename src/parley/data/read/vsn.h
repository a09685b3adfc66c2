// The vehicle sensor network (Duarte & Hu 2004): <run>/n<node>/<run>evfeat<node>_1_1.txt has 50 acoustic features a
// line, …_1_2.txt the 50 seismic ones of the same events, each followed by its class as ones and zeros. In the runs
// aav… an amphibious assault vehicle passes, in dw… a dragon wagon.
#pragma once

#include <filesystem>

#include "parley/data/dataset.h"

namespace parley {

// Every event of every run, in the order of the files' paths: 100 features, the vehicle as label, the node as user. The
// node is the one of the file's name; a few files lie in the folder of another. Throws InputError with file and line.
Dataset read_vsn(const std::filesystem::path& folder);

}  // namespace parley
