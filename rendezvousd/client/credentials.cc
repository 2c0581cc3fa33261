#include "rendezvousd/client/credentials.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <array>
#include <memory>

#include "common/entropy.h"
#include "common/hex.h"
#include "common/text.h"

namespace muster::client {
namespace {

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Deleter<X509_EXTENSION_free>>;
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using BigNumber = std::unique_ptr<BIGNUM, Deleter<BN_free>>;

Status OpensslError(std::string_view what) {
  std::array<char, 256> text{};
  ERR_error_string_n(ERR_get_error(), text.data(), text.size());
  ERR_clear_error();
  return Internal(Concat("OpenSSL could not ", what, ": ", std::string_view(text.data())));
}

bool AddExtension(X509* certificate, int nid, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  const Extension extension(X509V3_EXT_conf_nid(nullptr, &context, nid, value));
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

bool SetSerial(X509* certificate) {
  // 159 bits: positive, and within the 20 bytes that RFC 5280 allows.
  const BigNumber serial(BN_new());
  return serial && BN_rand(serial.get(), 159, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
         BN_to_ASN1_INTEGER(serial.get(), X509_get_serialNumber(certificate)) != nullptr;
}

bool Fill(X509* certificate, EVP_PKEY* key) {
  X509_NAME* name = X509_get_subject_name(certificate);
  const auto* common_name = reinterpret_cast<const unsigned char*>("muster");
  return X509_set_version(certificate, X509_VERSION_3) == 1 && SetSerial(certificate) &&
         X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, common_name, -1, -1, 0) == 1 &&
         X509_set_issuer_name(certificate, name) == 1 &&
         // A node whose clock is wrong by years must still join; the secret's life is the run's.
         ASN1_TIME_set_string_X509(X509_getm_notBefore(certificate), "19700101000000Z") == 1 &&
         ASN1_TIME_set_string_X509(X509_getm_notAfter(certificate), "99991231235959Z") == 1 &&
         X509_set_pubkey(certificate, key) == 1 &&
         AddExtension(certificate, NID_subject_alt_name, "DNS:muster") &&
         AddExtension(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
         AddExtension(certificate, NID_key_usage, "critical,digitalSignature") &&
         AddExtension(certificate, NID_ext_key_usage, "serverAuth") &&
         X509_sign(certificate, key, EVP_sha256()) > 0;
}

std::string Contents(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return {data, static_cast<std::size_t>(size)};
}

Result<std::string> MakeSecret() {
  MUSTER_ASSIGN_OR_RETURN(const auto bytes, RandomBytes(kSecretBytes));
  return HexEncode(bytes);
}

}  // namespace

Result<RunCredentials> MakeRunCredentials() {
  RunCredentials out;
  MUSTER_ASSIGN_OR_RETURN(out.join_secret, MakeSecret());
  MUSTER_ASSIGN_OR_RETURN(out.operator_secret, MakeSecret());
  const Key key(EVP_EC_gen("P-256"));
  if (!key) return OpensslError("make a P-256 key");
  const Certificate certificate(X509_new());
  if (!certificate || !Fill(certificate.get(), key.get())) {
    return OpensslError("make the run's certificate");
  }
  const Bio certificate_text(BIO_new(BIO_s_mem()));
  if (!certificate_text || PEM_write_bio_X509(certificate_text.get(), certificate.get()) != 1) {
    return OpensslError("write the run's certificate");
  }
  out.certificate = Contents(certificate_text.get());
  const Bio key_text(BIO_new(BIO_s_mem()));
  if (!key_text || PEM_write_bio_PKCS8PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0,
                                                 nullptr, nullptr) != 1) {
    return OpensslError("write the run's key");
  }
  out.private_key = Contents(key_text.get());
  return out;
}

Status CheckCertificate(std::string_view pem) {
  if (pem.size() > (std::size_t{64} << 10U)) {
    return InvalidArgument(Concat("the certificate has ", pem.size(), " bytes: not one of a run"));
  }
  const Bio bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  const Certificate certificate(bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)
                                    : nullptr);
  if (!certificate) {
    ERR_clear_error();
    return InvalidArgument("the run's certificate is not a PEM certificate");
  }
  return OkStatus();
}

}  // namespace muster::client
