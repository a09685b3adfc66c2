#include "parley/wire/keys.h"

#include <gtest/gtest.h>

#include "parley/base/errors.h"
#include "parley/base/files.h"
#include "parley/base/temp_folder.h"

namespace parley::wire {
namespace {

TEST(Keys, ACertificateBearsItsName) {
  const TempFolder folder;
  make_authority(folder.path(), "federation", 10);
  make_certificate(folder.path(), "clinic-a", {}, 10);
  const auto facts = read_certificate(folder / "clinic-a.crt");
  EXPECT_EQ(facts.name, "clinic-a");
  EXPECT_FALSE(facts.expired);
  EXPECT_EQ(facts.serial, serial_of(read_file(folder / "clinic-a.crt")));
  EXPECT_NE(facts.serial, read_certificate(folder / "ca.crt").serial);
}

TEST(Keys, RefuseNamesThatLeadElsewhereAndWhatIsThere) {
  const TempFolder folder;
  EXPECT_THROW(make_certificate(folder.path(), "a", {}, 10), InputError);  // no authority
  make_authority(folder.path(), "federation", 10);
  EXPECT_THROW(make_authority(folder.path(), "federation", 10), InputError);
  for (const char* name : {"", "ca", "../a", "a/b", ".a", "a b"}) {
    EXPECT_THROW(make_certificate(folder.path(), name, {}, 10), InputError) << name;
  }
  make_certificate(folder.path(), "a", {}, 10);
  EXPECT_THROW(make_certificate(folder.path(), "a", {}, 10), InputError);
}

TEST(Keys, AListIsReadAnewWhenItChanges) {
  const TempFolder folder;
  make_authority(folder.path(), "federation", 10);
  make_certificate(folder.path(), "a", {}, 10);
  const std::string serial = read_certificate(folder / "a.crt").serial;
  RevocationList list(folder / "revoked.txt");
  EXPECT_FALSE(list.contains(serial));
  revoke(folder.path(), "a");
  EXPECT_TRUE(list.contains(serial));
  EXPECT_FALSE(list.contains(""));
  make_certificate(folder.path(), "a", {}, 10);  // the name is free again
  EXPECT_FALSE(list.contains(read_certificate(folder / "a.crt").serial));
}

TEST(Keys, WhatIsNoCertificateHasNoNumber) {
  EXPECT_EQ(serial_of(""), "");
  EXPECT_EQ(serial_of("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "");
}

}  // namespace
}  // namespace parley::wire
