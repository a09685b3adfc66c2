#include "parley/data/read/plays.h"

#include <expat.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>

#include "parley/base/errors.h"
#include "parley/data/read/bytes.h"

namespace parley {
namespace {

std::string trim(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Expat hands over the document piece by piece. Exceptions may not pass through its C code, so a complaint is kept and
// the parser is stopped.
class PlayReader {
 public:
  explicit PlayReader(const std::string& name) : name_(name), parser_(XML_ParserCreate(nullptr), &XML_ParserFree) {
    if (!parser_) fail<RunError>("expat could not be started");
    XML_SetUserData(parser_.get(), this);
    XML_SetElementHandler(
        parser_.get(), [](void* self, const char* tag, const char**) { static_cast<PlayReader*>(self)->open(tag); },
        [](void* self, const char* tag) { static_cast<PlayReader*>(self)->close(tag); });
    XML_SetCharacterDataHandler(parser_.get(), [](void* self, const char* text, int size) {
      static_cast<PlayReader*>(self)->add({text, static_cast<std::size_t>(size)});
    });
  }

  std::vector<Role> read(std::string_view xml) {
    if (xml.size() > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
      fail("{}: {} bytes; expected a play of less than 2 GB", name_, xml.size());
    }
    const auto status = XML_Parse(parser_.get(), xml.data(), static_cast<int>(xml.size()), /*isFinal=*/1);
    const auto line = XML_GetCurrentLineNumber(parser_.get());
    if (!complaint_.empty()) fail("{}:{}: {}", name_, line, complaint_);
    if (status != XML_STATUS_OK) {
      fail("{}:{}: not well-formed XML: {}; unpack the file again", name_, line,
           XML_ErrorString(XML_GetErrorCode(parser_.get())));
    }
    if (roles_.empty()) fail("{}: nobody speaks; expected SPEECH elements with SPEAKER and LINE", name_);
    for (auto& role : roles_) role.play = title_;
    return std::move(roles_);
  }

 private:
  void open(std::string_view tag) {
    if (depth_++ == 0 && tag != "PLAY") return stop(fmt::format("expected a PLAY, found {}", tag));
    if (tag == "SPEECH") speaker_ = kNobody;
    if (tag == "STAGEDIR") ++directions_;
    if (tag == "TITLE" || tag == "SPEAKER" || tag == "LINE") text_.clear();
  }

  void close(std::string_view tag) {
    --depth_;
    if (tag == "STAGEDIR") --directions_;
    if (tag == "TITLE" && title_.empty()) title_ = trim(text_);  // the first one is the play's
    if (tag == "SPEAKER" && speaker_ == kNobody) begin_speech(trim(text_));
    if (tag == "LINE") end_line();
  }

  void add(std::string_view text) {
    if (directions_ == 0) text_ += text;
  }

  void begin_speech(const std::string& speaker) {
    const auto [found, is_new] = index_.try_emplace(speaker, roles_.size());
    if (is_new) roles_.push_back({.speaker = speaker});
    speaker_ = found->second;
    ++roles_[speaker_].speeches;
  }

  void end_line() {
    if (speaker_ == kNobody) return stop("a LINE that nobody speaks; expected a SPEAKER before it");
    const std::string line = trim(text_);
    if (!line.empty()) roles_[speaker_].text += line + '\n';  // a line may be a stage direction only
  }

  void stop(std::string complaint) {
    complaint_ = std::move(complaint);
    XML_StopParser(parser_.get(), XML_FALSE);
  }

  static constexpr std::size_t kNobody = SIZE_MAX;

  const std::string& name_;
  std::unique_ptr<XML_ParserStruct, decltype(&XML_ParserFree)> parser_;
  std::vector<Role> roles_;
  std::map<std::string, std::size_t> index_;  // of roles_, by speaker
  std::string title_, text_, complaint_;
  std::size_t speaker_ = kNobody;  // of the speech that is being read
  std::size_t depth_ = 0, directions_ = 0;
};

}  // namespace

std::vector<Role> parse_play(std::string_view xml, const std::string& name) {
  return PlayReader(name).read(xml);
}

std::vector<Role> read_plays(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".xml") files.push_back(entry.path());
  }
  if (files.empty()) fail("{}: expected plays as .xml files, found none", folder.string());
  std::sort(files.begin(), files.end());
  std::vector<Role> roles;
  for (const auto& file : files) {
    for (auto& role : parse_play(read_unpacked(file), file.string())) roles.push_back(std::move(role));
  }
  return roles;
}

}  // namespace parley
