#include "parley/wire/credentials.h"

#include "parley/base/files.h"

namespace parley::wire {

std::shared_ptr<grpc::ServerCredentials> server_credentials(const std::optional<TlsFiles>& tls) {
  if (!tls) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = read_file(tls->authority);
  options.pem_key_cert_pairs.push_back({read_file(tls->key), read_file(tls->certificate)});
  return grpc::SslServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const std::optional<TlsFiles>& tls) {
  if (!tls) return grpc::InsecureChannelCredentials();
  return grpc::SslCredentials({.pem_root_certs = read_file(tls->authority),
                               .pem_private_key = read_file(tls->key),
                               .pem_cert_chain = read_file(tls->certificate)});
}

std::string property(const grpc::AuthContext& who, const char* name) {
  const auto values = who.FindPropertyValues(name);
  return values.size() == 1 ? std::string(values[0].data(), values[0].size()) : "";
}

}  // namespace parley::wire
