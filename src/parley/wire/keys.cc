#include "parley/wire/keys.h"

#include <fmt/format.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <sstream>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/wire/log.h"

namespace parley::wire {
namespace {

namespace fs = std::filesystem;

template <auto release>
struct Release {
  template <class T>
  void operator()(T* held) const {
    release(held);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Release<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Release<X509_free>>;
using Bio = std::unique_ptr<BIO, Release<BIO_free_all>>;
using Number = std::unique_ptr<BIGNUM, Release<BN_free>>;
using Request = std::unique_ptr<X509_REQ, Release<X509_REQ_free>>;

void require(bool well, const char* what) {
  if (well) return;
  char reason[256] = "unknown";
  ERR_error_string_n(ERR_get_error(), reason, sizeof reason);
  fail<RunError>("OpenSSL: {} failed: {}", what, reason);
}

Bio buffer() {
  Bio bio(BIO_new(BIO_s_mem()));
  require(bio != nullptr, "making a buffer");
  return bio;
}

std::string text_of(const Bio& bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio.get(), &bytes);
  return {bytes, static_cast<std::size_t>(size)};
}

std::string pem_of(EVP_PKEY* key) {
  const Bio bio = buffer();
  require(PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) == 1, "writing a key");
  return text_of(bio);
}

std::string pem_of(X509* certificate) {
  const Bio bio = buffer();
  require(PEM_write_bio_X509(bio.get(), certificate) == 1, "writing a certificate");
  return text_of(bio);
}

Certificate parse_certificate(const std::string& pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
}

Certificate load_certificate(const fs::path& file) {
  Certificate certificate = parse_certificate(read_file(file));
  if (!certificate) fail("{}: not a certificate in PEM form", file.string());
  return certificate;
}

Request parse_request(const std::string& pem) {
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  return Request(PEM_read_bio_X509_REQ(bio.get(), nullptr, nullptr, nullptr));
}

Key load_key(const fs::path& file) {
  const std::string pem = read_file(file);
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, nullptr, nullptr));
  if (!key) fail("{}: not a private key in PEM form", file.string());
  return key;
}

// Nobody else may read a key, not even for a moment: the file is made before it has contents.
void write_key(const fs::path& file, EVP_PKEY* key) {
  const mode_t before = ::umask(0077);
  try {
    real_files().replace(file, pem_of(key));
  } catch (...) {
    ::umask(before);
    throw;
  }
  ::umask(before);
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
}

void extend(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Release<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  require(extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1, "extending a certificate");
}

void set_name(X509_NAME* subject, const std::string& name) {
  require(X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(name.data()),
                                     static_cast<int>(name.size()), -1, 0) == 1,
          "naming a certificate");
}

// Everything but the extensions and the signature.
Certificate blank_certificate(EVP_PKEY* key, const std::string& name, int days) {
  Certificate certificate(X509_new());
  unsigned char random[16];
  require(RAND_bytes(random, sizeof random) == 1, "drawing a serial number");
  random[0] &= 0x7f;  // positive
  const Number serial(BN_bin2bn(random, sizeof random, nullptr));
  require(BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate.get())) != nullptr, "numbering");
  X509_set_version(certificate.get(), X509_VERSION_3);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -300);  // clocks differ
  X509_time_adj_ex(X509_getm_notAfter(certificate.get()), days, 0, nullptr);
  X509_set_pubkey(certificate.get(), key);
  set_name(X509_get_subject_name(certificate.get()), name);
  return certificate;
}

Key new_key() {
  Key key(EVP_EC_gen("P-256"));
  require(key != nullptr, "making a key");
  return key;
}

std::string serial_text(X509* certificate) {
  const Number number(ASN1_INTEGER_to_BN(X509_get_serialNumber(certificate), nullptr));
  const std::unique_ptr<char, void (*)(char*)> text(BN_bn2hex(number.get()), [](char* held) { OPENSSL_free(held); });
  return text.get();
}

std::string common_name(const X509_NAME* subject) {
  char name[256] = "";
  X509_NAME_get_text_by_NID(subject, NID_commonName, name, sizeof name);
  return name;
}

// "DNS:server.example,IP:10.0.0.1"
std::string alternative_names(const std::vector<std::string>& hosts) {
  std::string names;
  for (const auto& host : hosts) {
    const std::unique_ptr<ASN1_OCTET_STRING, Release<ASN1_OCTET_STRING_free>> address(a2i_IPADDRESS(host.c_str()));
    names += fmt::format("{}{}:{}", names.empty() ? "" : ",", address ? "IP" : "DNS", host);
  }
  return names;
}

void require_name(const std::string& name) {
  const bool plain =
      !name.empty() && name.size() <= 64 && name != "ca" && name != "desk" && std::ranges::all_of(name, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_' || c == '-';
      });
  if (!plain || name[0] == '.') {
    fail("'{}': a name must be up to 64 letters, digits, '.', '_' or '-', and not 'ca' or 'desk'", name);
  }
}

struct Authority {
  Key key;
  Certificate certificate;

  explicit Authority(const fs::path& folder) {
    if (!fs::exists(folder / "ca.key")) {
      fail("{}: no authority there (ca.key is missing); make one with parley keys ca", folder.string());
    }
    key = load_key(folder / "ca.key");
    certificate = load_certificate(folder / "ca.crt");
  }

  // `uses`: clientAuth for who dials, serverAuth for who is dialled.
  Certificate sign(EVP_PKEY* holder, const std::string& name, const std::string& uses,
                   const std::vector<std::string>& hosts, int days) const {
    Certificate made = blank_certificate(holder, name, days);
    X509_set_issuer_name(made.get(), X509_get_subject_name(certificate.get()));
    extend(made.get(), certificate.get(), NID_basic_constraints, "critical,CA:FALSE");
    extend(made.get(), certificate.get(), NID_key_usage, "critical,digitalSignature");
    extend(made.get(), certificate.get(), NID_ext_key_usage, uses);
    if (!hosts.empty()) extend(made.get(), certificate.get(), NID_subject_alt_name, alternative_names(hosts));
    require(X509_sign(made.get(), key.get(), EVP_sha256()) > 0, "signing");
    return made;
  }
};

// Peers know each other by name, wherever they are.
std::vector<std::string> called(const std::string& name, std::vector<std::string> hosts) {
  if (!hosts.empty() && name != "server") hosts.push_back(name);
  return hosts;
}

std::string uses_of(const std::string& name, const std::vector<std::string>& hosts) {
  if (hosts.empty()) return "clientAuth";
  return name == "server" ? "serverAuth" : "serverAuth,clientAuth";  // a peer is dialled, and dials
}

void require_free(const fs::path& folder, const std::string& name) {
  if (fs::exists(folder / (name + ".crt"))) {
    fail("{}: '{}' has a certificate already; revoke it first with parley keys revoke {}", folder.string(), name, name);
  }
}

}  // namespace

void make_authority(const fs::path& folder, const std::string& name, int days) {
  make_folder(folder);
  if (fs::exists(folder / "ca.key")) fail("{}: there is an authority already; use another folder", folder.string());
  const Key key = new_key();
  const Certificate certificate = blank_certificate(key.get(), name, days);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  extend(certificate.get(), certificate.get(), NID_basic_constraints, "critical,CA:TRUE,pathlen:0");
  extend(certificate.get(), certificate.get(), NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(certificate.get(), certificate.get(), NID_subject_key_identifier, "hash");
  require(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0, "signing");
  write_key(folder / "ca.key", key.get());
  real_files().replace(folder / "ca.crt", pem_of(certificate.get()));
}

void make_certificate(const fs::path& folder, const std::string& name, const std::vector<std::string>& hosts,
                      int days) {
  require_name(name);
  const Authority authority(folder);
  require_free(folder, name);
  const Key key = new_key();
  const Certificate certificate = authority.sign(key.get(), name, uses_of(name, hosts), called(name, hosts), days);
  write_key(folder / (name + ".key"), key.get());
  real_files().replace(folder / (name + ".crt"), pem_of(certificate.get()));
}

void require_node_name(const std::string& name) {
  require_name(name);
  if (name == "server") fail("'server': this is the server's name; choose another for a node");
}

std::string make_request(const fs::path& folder, const std::string& name) {
  require_node_name(name);
  make_folder(folder);
  const fs::path file = folder / (name + ".key");
  if (!fs::exists(file)) write_key(file, new_key().get());
  const Key key = load_key(file);
  const Request request(X509_REQ_new());
  set_name(X509_REQ_get_subject_name(request.get()), name);
  require(X509_REQ_set_pubkey(request.get(), key.get()) == 1, "making a request");
  require(X509_REQ_sign(request.get(), key.get(), EVP_sha256()) > 0, "signing a request");
  const Bio bio = buffer();
  require(PEM_write_bio_X509_REQ(bio.get(), request.get()) == 1, "writing a request");
  return text_of(bio);
}

void require_request(const std::string& pem, const std::string& name) {
  require_node_name(name);
  const Request request = parse_request(pem);
  EVP_PKEY* key = request ? X509_REQ_get0_pubkey(request.get()) : nullptr;
  if (key == nullptr || X509_REQ_verify(request.get(), key) != 1) {
    fail("this is no request for a certificate, or its signature is not by its own key");
  }
  if (EVP_PKEY_get_base_id(key) != EVP_PKEY_EC) fail("the request's key is not on an elliptic curve");
  if (const std::string asked = common_name(X509_REQ_get_subject_name(request.get())); asked != name) {
    fail("the request is for the name '{}', and not for '{}'", asked, name);
  }
}

std::string sign_request(const fs::path& folder, const std::string& pem, const std::string& name,
                         const std::vector<std::string>& hosts, int days) {
  require_request(pem, name);
  const Authority authority(folder);
  require_free(folder, name);
  const Request request = parse_request(pem);
  EVP_PKEY* key = X509_REQ_get0_pubkey(request.get());
  const std::string made = pem_of(authority.sign(key, name, uses_of(name, hosts), called(name, hosts), days).get());
  real_files().replace(folder / (name + ".crt"), made);
  return made;
}

bool same_key(const std::string& certificate, const std::string& request) {
  const Certificate first = parse_certificate(certificate);
  const Request second = parse_request(request);
  return first && second && EVP_PKEY_eq(X509_get0_pubkey(first.get()), X509_REQ_get0_pubkey(second.get())) == 1;
}

std::string fingerprint_of(const std::string& pem) {
  const Certificate certificate = parse_certificate(pem);
  if (!certificate) return "";
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  require(X509_digest(certificate.get(), EVP_sha256(), digest, &size) == 1, "digesting a certificate");
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

DeskPair make_desk_pair(const fs::path& folder) {
  const Authority authority(folder);
  const Key key = new_key();
  const Certificate certificate = authority.sign(key.get(), "desk", "serverAuth", {"desk"}, 365);
  return {.chain = pem_of(certificate.get()) + pem_of(authority.certificate.get()), .key = pem_of(key.get())};
}

std::string authority_of(const std::string& chain, const std::string& fingerprint) {
  const Certificate desk = parse_certificate(chain);
  std::string authority;
  for (std::size_t at = 0; (at = chain.find("-----BEGIN CERTIFICATE-----", at)) != std::string::npos; ++at) {
    if (fingerprint_of(chain.substr(at)) == fingerprint) authority = chain.substr(at);
  }
  if (!desk || authority.empty()) {
    fail(
        "it does not belong to the federation that the token is of: no certificate of its has the token's fingerprint "
        "{}",
        fingerprint);
  }
  const Certificate root = parse_certificate(authority);
  const std::unique_ptr<X509_STORE, Release<X509_STORE_free>> store(X509_STORE_new());
  const std::unique_ptr<X509_STORE_CTX, Release<X509_STORE_CTX_free>> check(X509_STORE_CTX_new());
  require(X509_STORE_add_cert(store.get(), root.get()) == 1 &&
              X509_STORE_CTX_init(check.get(), store.get(), desk.get(), nullptr) == 1 &&
              X509_STORE_CTX_set_purpose(check.get(), X509_PURPOSE_SSL_SERVER) == 1,
          "checking a certificate");
  if (X509_verify_cert(check.get()) != 1) {
    fail("its certificate is not valid: {}", X509_verify_cert_error_string(X509_STORE_CTX_get_error(check.get())));
  }
  if (const std::string name = common_name(X509_get_subject_name(desk.get())); name != "desk") {
    fail("it is '{}', and no desk; use the address that parley keys desk listens at", name);
  }
  return pem_of(root.get());
}

void revoke(const fs::path& folder, const std::string& name) {
  require_name(name);
  const fs::path file = folder / (name + ".crt");
  const Certificate certificate = load_certificate(file);
  const std::string serial = serial_text(certificate.get());
  real_files().append(folder / "revoked.txt", fmt::format("{} {} {}\n", serial, name, timestamp()));
  fs::rename(file, folder / fmt::format("{}.{}.revoked", name, serial));
  fs::remove(folder / (name + ".key"));
}

std::string serial_of(const std::string& pem) {
  const Certificate certificate = parse_certificate(pem);
  return certificate ? serial_text(certificate.get()) : "";
}

CertificateFacts read_certificate(const fs::path& file) {
  const Certificate certificate = load_certificate(file);
  const ASN1_TIME* end = X509_get0_notAfter(certificate.get());
  const Bio until = buffer();
  ASN1_TIME_print(until.get(), end);
  return {.name = common_name(X509_get_subject_name(certificate.get())),
          .serial = serial_text(certificate.get()),
          .until = text_of(until),
          .expired = X509_cmp_current_time(end) < 0};
}

bool RevocationList::contains(const std::string& serial) {
  if (serial.empty()) return false;
  refresh();
  return serials_.contains(serial);
}

void RevocationList::refresh() {
  std::error_code missing;
  const auto changed = fs::last_write_time(file_, missing);
  if (missing) return;
  const auto size = fs::file_size(file_, missing);
  if (missing || (changed == read_at_ && size == size_)) return;
  try {
    std::istringstream lines(read_file(file_));
    std::set<std::string> found;
    for (std::string line; std::getline(lines, line);) {
      if (const std::string serial = line.substr(0, line.find(' ')); !serial.empty()) found.insert(serial);
    }
    serials_ = std::move(found);
    read_at_ = changed;
    size_ = size;
  } catch (const InputError&) {
    // What was revoked stays revoked.
  }
}

}  // namespace parley::wire
