#include "parley/wire/monitor.h"

#include <fmt/format.h>
#include <httplib.h>
#include <sys/stat.h>

#include <chrono>
#include <thread>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/secrets.h"
#include "parley/wire/monitor_page.h"

namespace parley::wire {
namespace {

constexpr int kSeconds = 5;

// In a time that does not say how much of it was right.
bool equal(const std::string& token, const std::string& given) {
  if (token.size() != given.size()) return false;  // how long a token is, is no secret
  unsigned difference = 0;
  for (std::size_t i = 0; i < token.size(); ++i) difference |= static_cast<unsigned char>(token[i] ^ given[i]);
  return difference == 0;
}

std::string token_in(const httplib::Request& request) {
  if (request.has_param("token")) return request.get_param_value("token");
  const std::string header = request.get_header_value("Authorization"), kind = "Bearer ";
  return header.starts_with(kind) ? header.substr(kind.size()) : "";
}

std::string quoted(const std::string& label) {
  std::string text;
  for (const char c : label) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? ' ' : c;
  }
  return text;
}

std::pair<std::string, int> host_and_port(const std::string& address) {
  const auto colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos) {
    fail("{}: expected host:port, for example 127.0.0.1:7780", address);
  }
  return {address.substr(0, colon), std::stoi(port)};
}

}  // namespace

struct Monitor::Parts {
  httplib::Server server;
  int port = 0;
  std::thread thread;
};

Monitor::Monitor(const std::string& address, std::string token, Window window) : parts_(std::make_unique<Parts>()) {
  const auto [host, port] = host_and_port(address);
  httplib::Server& server = parts_->server;
  server.set_read_timeout(kSeconds);
  server.set_write_timeout(kSeconds);
  server.set_payload_max_length(1024);  // nobody has anything to send
  server.new_task_queue = [] { return new httplib::ThreadPool(2); };
  server.set_pre_routing_handler([token = std::move(token)](const httplib::Request& request, httplib::Response& reply) {
    reply.set_header("X-Content-Type-Options", "nosniff");
    reply.set_header("Referrer-Policy", "no-referrer");
    if (equal(token, token_in(request))) return httplib::Server::HandlerResponse::Unhandled;
    reply.status = 401;
    reply.set_content("the token is missing or wrong; parley status says it\n", "text/plain");
    return httplib::Server::HandlerResponse::Handled;
  });
  server.Get("/metrics", [window](const httplib::Request&, httplib::Response& reply) {
    reply.set_content(prometheus_text(window.status()), "text/plain; version=0.0.4");
  });
  server.Get("/status.json", [window](const httplib::Request&, httplib::Response& reply) {
    reply.set_content(window.status().dump(1), "application/json");
  });
  server.Get("/report", [window](const httplib::Request&, httplib::Response& reply) {
    try {
      reply.set_content(window.report(), "text/html; charset=utf-8");
    } catch (const Error& error) {
      reply.set_content(fmt::format("no report yet: {}\n", error.what()), "text/plain; charset=utf-8");
    }
  });
  server.Get("/", [](const httplib::Request&, httplib::Response& reply) {
    reply.set_content(kMonitorPage, "text/html; charset=utf-8");
  });
  parts_->port = port == 0                                 ? server.bind_to_any_port(host.c_str())
                 : server.bind_to_port(host.c_str(), port) ? port
                                                           : -1;
  if (parts_->port <= 0) fail("{}: cannot listen there; is the port in use?", address);
  parts_->thread = std::thread([this] { parts_->server.listen_after_bind(); });
}

Monitor::~Monitor() {
  parts_->server.stop();
  parts_->thread.join();
}

int Monitor::port() const {
  return parts_->port;
}

std::string prometheus_text(const Json& status) {
  std::string text;
  const auto head = [&](const char* name, const char* kind, const char* meaning) {
    text += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, meaning, name, kind);
  };
  const auto single = [&](const char* name, const char* kind, const char* meaning, std::size_t value) {
    head(name, kind, meaning);
    text += fmt::format("{} {}\n", name, value);
  };
  const auto per_node = [&](const char* name, const char* kind, const char* meaning, const char* key) {
    head(name, kind, meaning);
    for (const Json& node : status.at("nodes")) {
      const Json& value = node.at(key);
      text += fmt::format("{}{{node=\"{}\"}} {}\n", name, quoted(node.at("name").get<std::string>()),
                          value.is_boolean() ? static_cast<std::size_t>(value.get<bool>()) : value.get<std::size_t>());
    }
  };
  single("parley_round", "gauge", "The round that is open or was closed last.", status.at("round").get<std::size_t>());
  single("parley_nodes_expected", "gauge", "Nodes of the whole federation.", status.at("expected").get<std::size_t>());
  single("parley_connections_refused_total", "counter", "Streams that were refused.",
         status.at("connections_refused").get<std::size_t>());
  per_node("parley_node_connected", "gauge", "Whether the node is connected.", "connected");
  per_node("parley_node_received_bytes_total", "counter", "Bytes of answers from the node.", "bytes_in");
  per_node("parley_node_sent_bytes_total", "counter", "Bytes of broadcasts to the node.", "bytes_out");
  per_node("parley_node_received_line_bytes_total", "counter",
           "The same as they came over the line, compressed or not.", "line_in");
  per_node("parley_node_sent_line_bytes_total", "counter", "The same as they went over the line, compressed or not.",
           "line_out");
  per_node("parley_node_answers_accepted_total", "counter", "Answers of the node that counted.", "accepted");
  per_node("parley_node_answers_refused_total", "counter", "Answers that did not, and rounds without one.", "refused");
  return text;
}

std::string new_token() {
  std::byte bytes[16];
  system_secrets(bytes);
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return text;
}

void write_viewpoint(const std::filesystem::path& file, const Viewpoint& viewpoint) {
  const mode_t before = ::umask(0077);
  real_files().replace(
      file, Json{{"host", viewpoint.host}, {"port", viewpoint.port}, {"token", viewpoint.token}}.dump() + "\n");
  ::umask(before);
}

Viewpoint read_viewpoint(const std::filesystem::path& file) {
  const Json found = Json::parse(read_file(file), nullptr, false);
  if (!found.is_object()) fail("{}: not a JSON object", file.string());
  return {found.value("host", ""), found.value("port", 0), found.value("token", "")};
}

Json ask_status(const Viewpoint& viewpoint) {
  httplib::Client client(viewpoint.host, viewpoint.port);
  client.set_connection_timeout(kSeconds);
  client.set_read_timeout(kSeconds);
  const auto reply = client.Get("/status.json", {{"Authorization", "Bearer " + viewpoint.token}});
  if (!reply) fail<RunError>("{}:{}: no server answers there", viewpoint.host, viewpoint.port);
  if (reply->status == 401) fail("{}:{}: the token is not the server's", viewpoint.host, viewpoint.port);
  const Json status = Json::parse(reply->body, nullptr, false);
  if (reply->status != 200 || !status.is_object()) {
    fail<RunError>("{}:{}: what answers there is no parley server", viewpoint.host, viewpoint.port);
  }
  return status;
}

}  // namespace parley::wire
