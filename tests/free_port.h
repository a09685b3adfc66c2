// A port of loopback that nobody uses now.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

namespace parley::tests {

inline int free_port() {
  const int handle = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(handle, reinterpret_cast<sockaddr*>(&address), size);
  ::getsockname(handle, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(handle);
  return ntohs(address.sin_port);
}

}  // namespace parley::tests
