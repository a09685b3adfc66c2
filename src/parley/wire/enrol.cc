#include "parley/wire/enrol.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <sys/stat.h>

#include <chrono>
#include <ctime>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/data/digest.h"
#include "parley/store/run_folder.h"
#include "parley/wire/enrolment.grpc.pb.h"
#include "parley/wire/keys.h"
#include "parley/wire/monitor.h"

namespace parley::wire {
namespace {

namespace fs = std::filesystem;
namespace pb = parley::wire::v1;
using namespace std::chrono_literals;

// Anybody can ask a desk; what strangers ask must not fill the disk.
constexpr std::size_t kRefusalsKept = 10'000;
constexpr int kLongestRequest = 16 << 10;
constexpr auto kPatience = 20s;

std::int64_t now() {
  return static_cast<std::int64_t>(std::time(nullptr));
}

fs::path token_file(const fs::path& folder, const std::string& secret) {
  return folder / "tokens" / (hex_digest("sha256", secret) + ".json");
}

// Only the one who runs this may read it.
void write_token(const fs::path& file, const Json& token) {
  const mode_t before = ::umask(0077);
  try {
    real_files().replace(file, token.dump() + "\n");
  } catch (...) {
    ::umask(before);
    throw;
  }
  ::umask(before);
}

}  // namespace

fs::path desk_journal_of(const fs::path& keys) {
  return keys / "enrolment.sqlite";
}

std::string make_token(const fs::path& folder, const TokenTerms& terms) {
  require_node_name(terms.name);
  if (!fs::exists(folder / "ca.key")) {
    fail("{}: no authority there (ca.key is missing); make one with parley keys ca", folder.string());
  }
  if (fs::exists(folder / (terms.name + ".crt"))) {
    fail("{}: '{}' has a certificate already; revoke it first with parley keys revoke {}", folder.string(), terms.name,
         terms.name);
  }
  const std::string secret = new_token();
  make_folder(folder / "tokens");
  write_token(token_file(folder, secret), {{"name", terms.name},
                                           {"hosts", terms.hosts},
                                           {"days", terms.days},
                                           {"made", timestamp()},
                                           {"ends", now() + static_cast<std::int64_t>(terms.hours * 3600.0)},
                                           {"spent", ""}});
  return fingerprint_of(read_file(folder / "ca.crt")) + "." + secret;
}

// --- The desk ---

namespace {

fs::path with_authority(fs::path folder) {
  if (!fs::exists(folder / "ca.key")) {
    fail("{}: no authority there (ca.key is missing); a desk needs it", folder.string());
  }
  return folder;
}

}  // namespace

Desk::Desk(fs::path folder, const Log& log)
    : folder_(with_authority(std::move(folder))),
      log_(log),
      lock_(folder_),
      journal_(desk_journal_of(folder_), "enrolment") {}

void Desk::note(std::string_view event, const std::string& name, const std::string& detail) {
  log_.say(event, {{"node", name}, {"detail", detail}});
  journal_.audit(event, name, 0, detail);
}

// What strangers ask never ends the desk: neither by its number, nor by a full disk.
void Desk::note_refusal(std::string_view event, const std::string& name, const std::string& detail) {
  if (refusals_++ >= kRefusalsKept) return;
  try {
    note(event, name.substr(0, 64), detail);
  } catch (const RunError& full) {
    log_.say("no audit", {{"reason", full.what()}});
  }
}

std::string Desk::certify(const std::string& name, const std::string& secret, const std::string& request) {
  const fs::path file = token_file(folder_, secret);
  if (!fs::exists(file)) fail("the token is unknown here; ask the operator for one");
  Json token = Json::parse(read_file(file));
  const auto holder = token.at("name").get<std::string>();
  if (name != holder) fail("the token is for another name than '{}'; use the name that the operator gave it", name);
  const fs::path certificate = folder_ / (name + ".crt");
  if (const auto spent = token.at("spent").get<std::string>(); !spent.empty()) {
    if (fs::exists(certificate) && same_key(read_file(certificate), request)) return read_file(certificate);
    fail("the token was used on {}; ask the operator for another, and whether that was you", spent);
  }
  if (token.at("ends").get<std::int64_t>() <= now()) fail("the token has expired; ask the operator for another");
  require_request(request, name);
  if (fs::exists(certificate)) fail("'{}' has a certificate already; ask the operator to revoke it first", name);
  // Spent before it is signed: a kill between the two costs a token, never gives two certificates.
  token["spent"] = timestamp();
  write_token(file, token);
  return sign_request(folder_, request, name, token.at("hosts").get<std::vector<std::string>>(),
                      token.at("days").get<int>());
}

Desk::Answer Desk::enrol(const std::string& name, const std::string& secret, const std::string& request,
                         const std::string& from) {
  const std::lock_guard lock(mutex_);
  try {
    std::string certificate = certify(name, secret, request);
    note("enrolled", name, fmt::format("from {}, certificate {}", from, serial_of(certificate)));
    return {.refusal = "", .certificate = std::move(certificate)};
  } catch (const std::exception& error) {
    const bool ours = dynamic_cast<const InputError*>(&error) == nullptr;  // a full disk, a damaged file
    note_refusal("not enrolled", name, fmt::format("from {}: {}", from, error.what()));
    return {.refusal = ours ? "the desk could not do it; its operator's log says why" : error.what(),
            .certificate = ""};
  }
}

void Desk::declined(const std::string& name, const std::string& reason, const std::string& from) {
  const std::lock_guard lock(mutex_);
  note_refusal("declined", name, fmt::format("from {}: {}", from, reason.substr(0, 500)));
}

// --- Its server ---

namespace {

class DeskService final : public pb::Enrolment::Service {
 public:
  explicit DeskService(Desk& desk) : desk_(desk) {}
  grpc::Status Enrol(grpc::ServerContext* context, const pb::EnrolRequest* asked, pb::EnrolAnswer* answer) override {
    Desk::Answer decided = desk_.enrol(asked->name(), asked->secret(), asked->request(), context->peer());
    answer->set_refusal(std::move(decided.refusal));
    answer->set_certificate(std::move(decided.certificate));
    return grpc::Status::OK;
  }
  grpc::Status Decline(grpc::ServerContext* context, const pb::EnrolDecline* said, pb::EnrolDeclined*) override {
    desk_.declined(said->name(), said->reason(), context->peer());
    return grpc::Status::OK;
  }

 private:
  Desk& desk_;
};

}  // namespace

struct DeskServer::Parts {
  explicit Parts(Desk& desk) : service(desk) {}
  DeskService service;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
};

DeskServer::DeskServer(Desk& desk, const fs::path& folder, const std::string& address)
    : parts_(std::make_unique<Parts>(desk)) {
  const DeskPair pair = make_desk_pair(folder);
  grpc::SslServerCredentialsOptions options(GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE);
  options.pem_key_cert_pairs.push_back({pair.key, pair.chain});
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::SslServerCredentials(options), &parts_->port);
  builder.RegisterService(&parts_->service);
  builder.SetMaxReceiveMessageSize(kLongestRequest);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  parts_->server = builder.BuildAndStart();
  if (!parts_->server || parts_->port == 0) fail("{}: cannot listen there; is the port in use?", address);
}

DeskServer::~DeskServer() {
  parts_->server->Shutdown(std::chrono::system_clock::now() + 1s);
}

int DeskServer::port() const {
  return parts_->port;
}

// --- The node ---

namespace {

struct Verdict {
  std::mutex mutex;
  std::string authority;  // its certificate, once the desk has shown the right one
  std::string refusal;
};

// Lets a connection be only when the desk's authority has the token's fingerprint.
class ByFingerprint final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  ByFingerprint(std::string fingerprint, std::shared_ptr<Verdict> verdict)
      : fingerprint_(std::move(fingerprint)), verdict_(std::move(verdict)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest* request, std::function<void(grpc::Status)>,
              grpc::Status* status) override {
    const auto chain = request->peer_cert_full_chain();
    const std::lock_guard lock(verdict_->mutex);
    try {
      verdict_->authority = authority_of({chain.data(), chain.size()}, fingerprint_);
      *status = grpc::Status::OK;
    } catch (const Error& error) {
      verdict_->refusal = error.what();
      *status = grpc::Status(grpc::StatusCode::UNAUTHENTICATED, error.what());
    }
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::string fingerprint_;
  const std::shared_ptr<Verdict> verdict_;
};

// Who the desk is, is for the verifier alone to say: the node has no certificate yet to compare with.
std::unique_ptr<pb::Enrolment::Stub> dial(const std::string& desk,
                                          std::shared_ptr<grpc::experimental::CertificateVerifier> verifier) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::move(verifier));
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("desk");  // its certificate's name, whatever the address
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return pb::Enrolment::NewStub(
      grpc::CreateCustomChannel(desk, grpc::experimental::TlsCredentials(options), arguments));
}

void set_patience(grpc::ClientContext& context) {
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
}

// Tells a desk that is not the token's why nothing came; best effort, and without a secret.
void decline(const std::string& desk, const std::string& name, const std::string& reason) {
  const auto stub = dial(desk, std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  grpc::ClientContext context;
  set_patience(context);
  pb::EnrolDecline said;
  said.set_name(name);
  said.set_reason(reason);
  pb::EnrolDeclined heard;
  static_cast<void>(stub->Decline(&context, said, &heard));
}

bool is_hex(std::string_view text, std::size_t length) {
  return text.size() == length && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

void enrol(const std::string& desk, const std::string& name, const std::string& token, const fs::path& folder) {
  const std::size_t dot = token.find('.');
  const std::string fingerprint = token.substr(0, dot), secret = dot == std::string::npos ? "" : token.substr(dot + 1);
  if (!is_hex(fingerprint, 64) || !is_hex(secret, 32)) {
    fail("--token: this is no token; expected the whole line that parley keys token printed");
  }
  if (fs::exists(folder / (name + ".crt"))) {
    fail("{}: '{}' has a certificate already; use another --folder", folder.string(), name);
  }
  if (const fs::path known = folder / "ca.crt"; fs::exists(known) && fingerprint_of(read_file(known)) != fingerprint) {
    fail("{}: this is another federation's than the token's; use another --folder", known.string());
  }
  pb::EnrolRequest request;
  request.set_name(name);
  request.set_secret(secret);
  request.set_request(make_request(folder, name));
  const auto verdict = std::make_shared<Verdict>();
  const auto stub =
      dial(desk, grpc::experimental::ExternalCertificateVerifier::Create<ByFingerprint>(fingerprint, verdict));
  grpc::ClientContext context;
  set_patience(context);
  pb::EnrolAnswer answer;
  const grpc::Status status = stub->Enrol(&context, request, &answer);
  const std::lock_guard lock(verdict->mutex);
  if (!verdict->refusal.empty()) {
    decline(desk, name, verdict->refusal);
    fail("{}: {}; nothing was sent to it", desk, verdict->refusal);
  }
  if (!status.ok()) {
    fail("{}: no desk answers there ({}); is parley keys desk running?", desk, status.error_message());
  }
  if (!answer.refusal().empty()) fail("{} does not enrol '{}': {}", desk, name, answer.refusal());
  if (!same_key(answer.certificate(), request.request())) {
    fail<RunError>("{}: the desk's answer is no certificate for this node's key", desk);
  }
  real_files().replace(folder / "ca.crt", verdict->authority);
  real_files().replace(folder / (name + ".crt"), answer.certificate());
}

}  // namespace parley::wire
