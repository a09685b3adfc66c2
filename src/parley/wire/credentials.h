// Keys as gRPC wants them. Without TLS anybody may listen, and claim to be anybody.
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "parley/wire/tls.h"

namespace parley::wire {

// Who dials must show a certificate of the federation. Throws InputError when the keys cannot be read.
std::shared_ptr<grpc::ServerCredentials> server_credentials(const std::optional<TlsFiles>& tls);
std::shared_ptr<grpc::ChannelCredentials> channel_credentials(const std::optional<TlsFiles>& tls);

// A property of who dials, such as the name in its certificate; empty when there is none.
std::string property(const grpc::AuthContext& who, const char* name);

}  // namespace parley::wire
