#include "parley/data/download.h"

#include <curl/curl.h>

#include <memory>
#include <mutex>

#include "parley/base/errors.h"

namespace parley {
namespace {

// Larger than any data set here; an address that never stops sending is not one of them.
constexpr curl_off_t kMostBytes = curl_off_t{1} << 30;
constexpr long kConnectSeconds = 20;
constexpr long kStallSeconds = 30;

struct Transfer {
  std::string body;
  const std::function<void(std::uint64_t, std::uint64_t)>& progress;
};

std::size_t on_bytes(char* bytes, std::size_t size, std::size_t count, void* user) {
  auto* transfer = static_cast<Transfer*>(user);
  if (transfer->body.size() + size * count > static_cast<std::size_t>(kMostBytes)) return 0;
  transfer->body.append(bytes, size * count);
  return size * count;
}

int on_progress(void* user, curl_off_t total, curl_off_t done, curl_off_t, curl_off_t) {
  const auto* transfer = static_cast<Transfer*>(user);
  if (transfer->progress) {
    transfer->progress(static_cast<std::uint64_t>(done), static_cast<std::uint64_t>(total));
  }
  return 0;
}

}  // namespace

std::string download(const std::string& url, const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(), &curl_easy_cleanup);
  if (!handle) fail<RunError>("{}: libcurl could not be started", url);
  Transfer transfer{{}, progress};
  char reason[CURL_ERROR_SIZE] = "";
  CURL* curl = handle.get();
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http,file");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "https,http");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStallSeconds);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  const CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) fail<RunError>("{}: {}", url, *reason != '\0' ? reason : curl_easy_strerror(code));
  return std::move(transfer.body);
}

}  // namespace parley
