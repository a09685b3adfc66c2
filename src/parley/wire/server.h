// The gRPC end of a server: accepts streams, and hands what they bring to a Hub.
//
// Threads:  gRPC's own. Ends all streams when it is destroyed.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "parley/wire/hub.h"
#include "parley/wire/tls.h"

namespace parley::wire {

class Server {
 public:
  // Listens at "host:port"; port 0 takes a free one. Without TLS anybody may claim to be anybody. The hub must outlive
  // it. Throws InputError when the address cannot be had or the keys cannot be read.
  Server(Hub& hub, const std::string& address, const std::optional<TlsFiles>& tls);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace parley::wire
