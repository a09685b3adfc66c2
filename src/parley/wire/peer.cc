#include "parley/wire/peer.h"

#include "parley/wire/station.h"

namespace parley::wire {
namespace {

std::unique_ptr<Station> station_of(const PeerSetup& setup, const Log& log) {
  const std::string& method = setup.experiment->settings.method.text("name");
  const bool stays = method == "gossip" || method == "dpsgd";
  return stays ? make_staying(setup, log) : make_visiting(setup, log);
}

}  // namespace

Peer::Peer(const PeerSetup& setup, const Log& log) : station_(station_of(setup, log)) {
  station_->listen();
}

Peer::~Peer() {
  station_->close();
}

int Peer::port() const {
  return station_->port();
}

bool Peer::run() {
  return station_->run();
}

void Peer::stop() {
  station_->stop();
}

}  // namespace parley::wire
