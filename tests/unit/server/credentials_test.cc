#include "rendezvousd/client/credentials.h"

#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include "common/hex.h"

namespace muster::client {
namespace {

TEST(Credentials, AreFreshAndFit) {
  const auto one = MakeRunCredentials().value();
  const auto two = MakeRunCredentials().value();
  EXPECT_EQ(HexDecode(one.join_secret).value().size(), 32U);
  EXPECT_EQ(HexDecode(one.operator_secret).value().size(), 32U);
  EXPECT_NE(one.join_secret, one.operator_secret);
  EXPECT_NE(one.join_secret, two.join_secret);
  EXPECT_NE(one.private_key, two.private_key);

  BIO* text = BIO_new_mem_buf(one.certificate.data(), static_cast<int>(one.certificate.size()));
  X509* certificate = PEM_read_bio_X509(text, nullptr, nullptr, nullptr);
  BIO_free(text);
  ASSERT_NE(certificate, nullptr);
  text = BIO_new_mem_buf(one.private_key.data(), static_cast<int>(one.private_key.size()));
  EVP_PKEY* key = PEM_read_bio_PrivateKey(text, nullptr, nullptr, nullptr);
  BIO_free(text);
  ASSERT_NE(key, nullptr);
  EXPECT_EQ(X509_check_private_key(certificate, key), 1);
  EXPECT_EQ(X509_verify(certificate, key), 1) << "signed by itself";
  EXPECT_EQ(X509_check_host(certificate, "muster", 0, 0, nullptr), 1);
  EXPECT_NE(X509_check_host(certificate, "localhost", 0, 0, nullptr), 1);
  // Valid on a node whose clock is at 1970 or far ahead.
  std::time_t past = 86400;
  std::time_t future = 4102444800;  // 2100
  EXPECT_LT(X509_cmp_time(X509_get0_notBefore(certificate), &past), 0);
  EXPECT_GT(X509_cmp_time(X509_get0_notAfter(certificate), &future), 0);
  EVP_PKEY_free(key);
  X509_free(certificate);
}

TEST(Credentials, CheckCertificateTakesACertificateOnly) {
  const auto credentials = MakeRunCredentials().value();
  EXPECT_TRUE(CheckCertificate(credentials.certificate).ok());
  EXPECT_FALSE(CheckCertificate(credentials.private_key).ok());
  EXPECT_FALSE(CheckCertificate("").ok());
  EXPECT_FALSE(CheckCertificate(std::string(1 << 20, 'A')).ok());
}

}  // namespace
}  // namespace muster::client
