#include "parley/data/read/plays.h"

#include "parley/data/test_folder.h"

namespace parley {
namespace {

std::string play(const std::string& speeches) {
  return "<?xml version=\"1.0\"?>\n<!DOCTYPE PLAY SYSTEM \"play.dtd\">\n<PLAY><TITLE>A Play</TITLE>\n"
         "<ACT><TITLE>ACT I</TITLE><SCENE>\n" +
         speeches + "</SCENE></ACT></PLAY>\n";
}

TEST(Plays, GatherWhatEachRoleSays) {
  const auto roles = parse_play(play(R"(<SPEECH><SPEAKER>ANN</SPEAKER><LINE>Hail &amp; well met</LINE>
<LINE><STAGEDIR>Aside</STAGEDIR> not so</LINE></SPEECH>
<STAGEDIR>Enter BOB</STAGEDIR>
<SPEECH><SPEAKER>BOB</SPEAKER><SPEAKER>ANN</SPEAKER><LINE>Both!</LINE><LINE><STAGEDIR>Sings</STAGEDIR></LINE></SPEECH>
<SPEECH><SPEAKER> ANN </SPEAKER><LINE>Again.</LINE></SPEECH>
)"),
                                "p.xml");
  ASSERT_EQ(roles.size(), 2u);
  EXPECT_EQ(roles[0].play, "A Play");
  EXPECT_EQ(roles[0].speaker, "ANN");
  EXPECT_EQ(roles[0].text, "Hail & well met\nnot so\nAgain.\n");
  EXPECT_EQ(roles[0].speeches, 2u);
  EXPECT_EQ(roles[1].speaker, "BOB");
  EXPECT_EQ(roles[1].text, "Both!\n");
}

TEST(Plays, Refuse) {
  const auto refuse = [](const std::string& xml, std::initializer_list<std::string_view> pieces) {
    expect_refusal([&] { parse_play(xml, "p.xml"); }, pieces);
  };
  refuse("", {"p.xml:1", "not well-formed"});
  refuse("<BOOK></BOOK>", {"p.xml:1", "expected a PLAY, found BOOK"});
  refuse(play("<SPEECH><LINE>Who?</LINE></SPEECH>"), {"p.xml:5", "nobody speaks"});
  refuse(play("<SPEECH><SPEAKER>ANN</SPEAKER>"), {"p.xml:5", "not well-formed XML: mismatched tag"});
  refuse(play("").substr(0, 80), {"p.xml:", "not well-formed"});
  refuse(play(""), {"p.xml: nobody speaks"});
  const TestFolder folder;
  expect_refusal([&] { read_plays(folder.path()); }, {folder.path().string(), "found none"});
}

}  // namespace
}  // namespace parley
