// The keys of a federation: an authority that signs certificates for the server and the nodes, and a list of those that
// it has revoked. By OpenSSL.
//
// A folder holds ca.crt, ca.key, and NAME.crt, NAME.key for each party, and revoked.txt. Only the ca.crt, a party's own
// pair and, at the server, revoked.txt leave the authority's machine; ca.key never does.
//
// Failure:  InputError for what cannot be read or is there already; RunError when OpenSSL or the disk fails.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "parley/wire/tls.h"

namespace parley::wire {

// Makes ca.crt and ca.key. `days` is how long it is valid.
void make_authority(const std::filesystem::path& folder, const std::string& name, int days);
// Makes NAME.crt and NAME.key, signed by the authority in the folder. `hosts` are the names and addresses under which
// nodes find a server; without any it is a node's.
void make_certificate(const std::filesystem::path& folder, const std::string& name,
                      const std::vector<std::string>& hosts, int days);
// Adds the certificate NAME.crt to revoked.txt, and takes it out of the way, so that NAME can have a new one.
void revoke(const std::filesystem::path& folder, const std::string& name);

// The serial number of a certificate, in hexadecimal; empty for what is none.
std::string serial_of(const std::string& pem);
// When it ends, in words; and whose it is.
struct CertificateFacts {
  std::string name, serial, until;
  bool expired = false;
};
CertificateFacts read_certificate(const std::filesystem::path& file);

// The serial numbers in a revocation list, read anew whenever the file changes.
//
// Threads:  one at a time.
class RevocationList {
 public:
  // A file that is not there is an empty list; one that becomes unreadable keeps what was known.
  explicit RevocationList(std::filesystem::path file) : file_(std::move(file)) {}
  bool contains(const std::string& serial);

 private:
  void refresh();

  std::filesystem::path file_;
  std::filesystem::file_time_type read_at_{};
  std::uintmax_t size_ = 0;
  std::set<std::string> serials_;
};

}  // namespace parley::wire
