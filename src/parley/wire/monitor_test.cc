#include "parley/wire/monitor.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "parley/base/errors.h"

namespace parley::wire {
namespace {

Json some_status() {
  return {{"round", 3},
          {"expected", 2},
          {"complete", true},
          {"connections_refused", 1},
          {"nodes",
           {{{"name", "a\"b"},
             {"connected", true},
             {"bytes_in", 10},
             {"bytes_out", 20},
             {"line_in", 5},
             {"line_out", 6},
             {"accepted", 2},
             {"refused", 0}}}}};
}

// What comes back for one raw request.
std::string ask(int port, const std::string& request) {
  const int handle = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(handle, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const std::string whole = request + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
  EXPECT_EQ(::write(handle, whole.data(), whole.size()), static_cast<ssize_t>(whole.size()));
  std::string reply;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::read(handle, buffer, sizeof buffer)) > 0;) {
    reply.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(handle);
  return reply;
}

struct MonitorTest : testing::Test {
  const std::string token = new_token();
  Monitor monitor{"127.0.0.1:0", token, {.status = some_status, .report = []() -> std::string {
                                           throw InputError("nothing there");
                                         }}};
};

TEST_F(MonitorTest, ShowsNothingWithoutTheToken) {
  const std::vector<std::string> paths = {"/",
                                          "/metrics",
                                          "/metrics?token=",
                                          "/status.json?token=wrong",
                                          "/report",
                                          "/?token=" + std::string(token.size(), 'x')};
  for (const std::string& path : paths) {
    const std::string reply = ask(monitor.port(), "GET " + path);
    EXPECT_TRUE(reply.starts_with("HTTP/1.1 401")) << path << ": " << reply;
    EXPECT_EQ(reply.find("parley_round"), std::string::npos);
  }
}

TEST_F(MonitorTest, ShowsTheStatusToWhoHasIt) {
  EXPECT_NE(ask(monitor.port(), "GET /metrics?token=" + token).find("parley_round 3\n"), std::string::npos);
  EXPECT_EQ(ask_status({"127.0.0.1", monitor.port(), token}), some_status());
  EXPECT_THROW(ask_status({"127.0.0.1", monitor.port(), "wrong"}), InputError);
  EXPECT_NE(ask(monitor.port(), "GET /report?token=" + token).find("no report yet: nothing there"), std::string::npos);
  EXPECT_NE(ask(monitor.port(), "GET /?token=" + token).find("<title>Parley server"), std::string::npos);
}

TEST_F(MonitorTest, OnlyShows) {
  for (const char* method : {"POST", "PUT", "DELETE"}) {
    EXPECT_TRUE(ask(monitor.port(), method + std::string(" /status.json?token=") + token).starts_with("HTTP/1.1 404"));
  }
}

TEST(Prometheus, NamesNodesSafely) {
  EXPECT_NE(prometheus_text(some_status()).find("parley_node_received_bytes_total{node=\"a\\\"b\"} 10\n"),
            std::string::npos);
}

TEST(Monitor, RefusesAnAddressWithoutAPort) {
  EXPECT_THROW(Monitor("127.0.0.1", "t", {.status = some_status, .report = {}}), InputError);
}

}  // namespace
}  // namespace parley::wire
