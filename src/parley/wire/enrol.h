// How a node gets its certificate: the operator makes a token, the node's administrator spends it at the desk, a small
// server beside the authority's key. The node's own key is made at the node and never leaves it.
//
// A token is FINGERPRINT.SECRET. The fingerprint is that of the authority's certificate, by which the node knows the
// desk: nothing is trusted because it came first. Of the secret the authority keeps only the SHA-256, in
// tokens/SHA256.json. A token is for one name and ends by itself; it is spent with the first certificate. Who
// asks again with the same key gets the same certificate again, since the answer may have been lost on its way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "parley/store/folder_lock.h"
#include "parley/wire/journal.h"
#include "parley/wire/log.h"

namespace parley::wire {

struct TokenTerms {
  std::string name;
  std::vector<std::string> hosts = {};  // where others find the node, if they do (parley peer)
  double hours = 72;                    // for which the token is valid
  int days = 365;                       // for which the certificate will be
};
// Makes a token at the authority in the folder. Throws InputError when the name has a certificate already.
std::string make_token(const std::filesystem::path& folder, const TokenTerms& terms);

// The desk's decisions, without a network.
//
// Threads:  any.
// Failure:  what somebody asks wrongly ends with a refusal, a line in the log and one in the audit log.
class Desk {
 public:
  // Throws InputError when there is no authority in the folder, or another desk. The log must outlive it.
  Desk(std::filesystem::path folder, const Log& log);

  struct Answer {
    std::string refusal, certificate;
  };
  // `from` is the address that asks.
  Answer enrol(const std::string& name, const std::string& secret, const std::string& request, const std::string& from);
  // A node found another fingerprint than its token's.
  void declined(const std::string& name, const std::string& reason, const std::string& from);

 private:
  std::string certify(const std::string& name, const std::string& secret, const std::string& request);
  void note(std::string_view event, const std::string& name, const std::string& detail);
  void note_refusal(std::string_view event, const std::string& name, const std::string& detail);

  const std::filesystem::path folder_;
  const Log& log_;
  std::mutex mutex_;
  FolderLock lock_;
  Journal journal_;
  std::size_t refusals_ = 0;
};

// A desk that can be reached. Ends its calls when it is destroyed.
class DeskServer {
 public:
  // Throws InputError when the address cannot be had. The desk must outlive it.
  DeskServer(Desk& desk, const std::filesystem::path& folder, const std::string& address);
  ~DeskServer();
  DeskServer(const DeskServer&) = delete;
  DeskServer& operator=(const DeskServer&) = delete;

  int port() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Spends a token at the desk: makes NAME.key (unless it is there), NAME.crt and ca.crt in the folder. Throws InputError
// with the desk's reason, or its own when the desk is not the token's.
void enrol(const std::string& desk, const std::string& name, const std::string& token,
           const std::filesystem::path& folder);

// Where a desk keeps its audit log.
std::filesystem::path desk_journal_of(const std::filesystem::path& keys);

}  // namespace parley::wire
