// A run that can be watched while it goes on.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "parley/engine/run.h"

namespace parley::app {

// Where a run in this process can be looked at in a browser: the report as it grows. It only shows.
class LivePage {
 public:
  virtual ~LivePage() = default;
  virtual std::string address() const = 0;  // with the token
  virtual void show(std::size_t round, std::size_t rounds) = 0;
};

// At "host:port". Throws InputError when it cannot listen there, or in a program that was built without it.
std::unique_ptr<LivePage> open_live_page(const std::string& address, const std::filesystem::path& run_folder);

}  // namespace parley::app
