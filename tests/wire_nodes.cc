// Many nodes of one federation in one process, without TLS: what tests/wire_load puts a server under load with.
//
//   wire_nodes EXPERIMENT.toml HOST:PORT NODES FOLDER
#include <sys/resource.h>

#include <cstdlib>
#include <thread>

#include "parley/base/errors.h"
#include "parley/wire/node.h"

namespace {

void allow_many_connections() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace parley;
  if (argc != 5) {
    fmt::print(stderr, "usage: wire_nodes EXPERIMENT.toml HOST:PORT NODES FOLDER\n");
    return 2;
  }
  allow_many_connections();
  const std::filesystem::path folder = argv[4];
  const Catalogue catalogue;
  DataCache cache;
  const auto experiment =
      std::make_shared<const Experiment>(build(resolve(Config::read(argv[1]), catalogue), catalogue, cache));
  const wire::Log log;
  std::vector<std::jthread> threads;
  for (std::size_t k = 0; k < std::strtoul(argv[3], nullptr, 10); ++k) {
    threads.emplace_back([&, k] {
      const std::string name = fmt::format("client-{}", k);
      wire::Node node({.server = argv[2],
                       .tls = {},
                       .name = name,
                       .folder = folder / name,
                       .prepare =
                           [&, k](const auto&, const auto&) {
                             return wire::OwnExperiment{experiment, k};
                           }},
                      log);
      try {
        node.run();
      } catch (const Error& error) {
        fmt::print(stderr, "{}: {}\n", name, error.what());
      }
    });
  }
}
