// A server's window: /metrics for Prometheus, /status.json for programs, and a page for people. It only shows.
//
// Whoever has the token may look: "?token=…" or "Authorization: Bearer …". Without TLS; put it behind a proxy, or use
// it over ssh, where others could listen.
//
// Threads:  its own; `status` and `report` are called on them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "parley/store/run_folder.h"

namespace parley::wire {

struct Window {
  std::function<Json()> status;         // Hub::status
  std::function<std::string()> report;  // the run so far, as an HTML page; may throw
};

class Monitor {
 public:
  // Listens at "host:port"; port 0 takes a free one. Throws InputError when it cannot.
  Monitor(const std::string& address, std::string token, Window window);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// The status as Prometheus reads it.
std::string prometheus_text(const Json& status);

// A token that nobody guesses: 32 hexadecimal digits.
std::string new_token();

// Where a running server can be looked at; for `parley status FOLDER` on the same machine. Readable by its owner only.
struct Viewpoint {
  std::string host;
  int port = 0;
  std::string token;
};
void write_viewpoint(const std::filesystem::path& file, const Viewpoint& viewpoint);
Viewpoint read_viewpoint(const std::filesystem::path& file);
// Asks a running server. Throws RunError when it does not answer, InputError when it does not know the token.
Json ask_status(const Viewpoint& viewpoint);

}  // namespace parley::wire
