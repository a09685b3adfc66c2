#include "parley/wire/server.h"

#include <grpcpp/grpcpp.h>

#include <thread>

#include "parley/base/errors.h"
#include "parley/wire/credentials.h"
#include "parley/wire/federation.grpc.pb.h"
#include "parley/wire/keys.h"

namespace parley::wire {
namespace {

constexpr int kLookahead = 1 << 20;

// One stream. Lives until gRPC is done with it, however long the hub holds on.
class Stream final : public grpc::ServerBidiReactor<pb::ToServer, pb::ToNode>, public Link {
 public:
  // Keeps itself alive until OnDone.
  static Stream* start(Hub& hub, grpc::CallbackServerContext& context) {
    auto stream = std::shared_ptr<Stream>(new Stream(hub, context));
    {
      const std::lock_guard lock(stream->mutex_);
      stream->self_ = stream;
    }
    hub.opened(stream);
    stream->StartRead(&stream->incoming_);
    return stream.get();
  }

  void send(ToNode message) override {
    const std::lock_guard lock(mutex_);
    if (closing_ || broken_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(outgoing_.front().get());
  }
  void close() override {
    const std::lock_guard lock(mutex_);
    closing_ = true;
    if (outgoing_.empty()) finish();
  }
  void cut() override {
    const std::lock_guard lock(mutex_);
    if (!done_) context_->TryCancel();
  }
  std::string identity() const override { return identity_; }
  std::string serial() const override { return serial_; }

  void OnReadDone(bool ok) override {
    const auto self = own();
    if (!ok) {
      hub_.closed(self);
      return close();
    }
    hub_.received(self, incoming_);
    incoming_.Clear();  // a chunk's memory; there may be many streams
    const std::lock_guard lock(mutex_);
    if (!finished_) StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    outgoing_.pop_front();
    if (!ok) {
      broken_ = true;
      outgoing_.clear();
    }
    if (!outgoing_.empty()) return StartWrite(outgoing_.front().get());
    if (closing_ || broken_) finish();
  }

  void OnDone() override {
    const auto self = own();
    hub_.closed(self);
    const std::lock_guard lock(mutex_);
    done_ = true;
    self_.reset();
  }

 private:
  Stream(Hub& hub, grpc::CallbackServerContext& context)
      : hub_(hub),
        context_(&context),
        identity_(property(*context.auth_context(), GRPC_X509_CN_PROPERTY_NAME)),
        serial_(serial_of(property(*context.auth_context(), GRPC_X509_PEM_CERT_PROPERTY_NAME))) {}

  // gRPC sees to it that a stream is ready before its first callback; the lock lets a race detector see it, too.
  std::shared_ptr<Stream> own() {
    const std::lock_guard lock(mutex_);
    return self_;
  }

  void finish() {
    if (finished_) return;
    finished_ = true;
    Finish(grpc::Status::OK);
  }

  Hub& hub_;
  grpc::CallbackServerContext* context_;
  const std::string identity_, serial_;
  std::shared_ptr<Stream> self_;
  pb::ToServer incoming_;

  std::mutex mutex_;
  std::deque<ToNode> outgoing_;  // the front is being written
  bool closing_ = false, broken_ = false, finished_ = false, done_ = false;
};

class Service final : public pb::Federation::CallbackService {
 public:
  explicit Service(Hub& hub) : hub_(hub) {}
  grpc::ServerBidiReactor<pb::ToServer, pb::ToNode>* Join(grpc::CallbackServerContext* context) override {
    return Stream::start(hub_, *context);
  }

 private:
  Hub& hub_;
};

}  // namespace

struct Server::Parts {
  explicit Parts(Hub& hub) : service(hub) {}
  Service service;
  int port = 0;
  std::unique_ptr<grpc::Server> server;
  std::jthread caretaker;
};

Server::Server(Hub& hub, const std::string& address, const std::optional<TlsFiles>& tls)
    : parts_(std::make_unique<Parts>(hub)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, server_credentials(tls), &parts_->port);
  builder.RegisterService(&parts_->service);
  builder.SetMaxReceiveMessageSize(kLongestMessage);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // a second server must not share the port unseen
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 15'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 15'000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5'000);
  // What a node may send before it is read: enough for 5 MB/s over 200 ms. Left to itself gRPC probes how much the link
  // carries, and on a fast one keeps about two models for each connection.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookahead);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  parts_->server = builder.BuildAndStart();
  if (!parts_->server || parts_->port == 0) {
    fail("{}: cannot listen there; is another server using the port, and do the keys fit each other?", address);
  }
  parts_->caretaker = std::jthread([&hub](const std::stop_token& end) {
    while (!end.stop_requested()) {
      hub.look_after();
      std::this_thread::sleep_for(std::chrono::milliseconds(500));
    }
  });
}

Server::~Server() {
  parts_->caretaker.request_stop();
  parts_->caretaker.join();
  parts_->server->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
}

int Server::port() const {
  return parts_->port;
}

}  // namespace parley::wire
