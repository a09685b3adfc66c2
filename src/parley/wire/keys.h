// The keys of a federation: an authority that signs certificates for the server and the nodes, and a list of those that
// it has revoked. By OpenSSL.
//
// A folder holds ca.crt, ca.key, and NAME.crt, NAME.key for each party, and revoked.txt. Only the ca.crt, a party's own
// pair and, at the server, revoked.txt leave the authority's machine; ca.key never does. Of a party that enrolled
// (wire/enrol.h) the authority has the NAME.crt alone: the key was made at the node, and stayed there.
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
// others find a server or a peer; without any it can only dial.
void make_certificate(const std::filesystem::path& folder, const std::string& name,
                      const std::vector<std::string>& hosts, int days);
// Throws InputError for a name that a node cannot have.
void require_node_name(const std::string& name);

// A request for a certificate of this name, in PEM form, for NAME.key in the folder; the key is made unless it is
// there.
std::string make_request(const std::filesystem::path& folder, const std::string& name);
// Throws InputError when this is no such request, is for another name, or is not signed by its key.
void require_request(const std::string& request, const std::string& name);
// Signs it as the authority in the folder, and keeps NAME.crt there; gives its text. Only the name and the key are
// taken from the request. Throws as require_request does, and when the name has a certificate.
std::string sign_request(const std::filesystem::path& folder, const std::string& request, const std::string& name,
                         const std::vector<std::string>& hosts, int days);
// Whether certificate and request are for the same key; both in PEM form.
bool same_key(const std::string& certificate, const std::string& request);

// The SHA-256 of a certificate, in lower-case hexadecimal; empty for what is none.
std::string fingerprint_of(const std::string& pem);
// A certificate named "desk" with its key, for this process alone; the authority's certificate follows its own.
struct DeskPair {
  std::string chain, key;
};
DeskPair make_desk_pair(const std::filesystem::path& folder);
// The authority's certificate among those that a desk showed, once all is well: it has that fingerprint, and the first
// is a desk's, signed by it. Throws InputError.
std::string authority_of(const std::string& chain, const std::string& fingerprint);

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
