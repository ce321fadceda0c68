// Keys and certificates.
#include "server/stream.hpp"

namespace bantam::server {

#ifdef BANTAM_HAS_TLS

TlsContext::TlsContext(const std::string& key_file, const std::string& certificate_file) {
  if (key_file.empty() && certificate_file.empty()) return;
  if (key_file.empty() || certificate_file.empty()) fail(Errc::invalid_argument, "TLS: expected a key and a certificate, found one of them");
  namespace ssl = boost::asio::ssl;
  ssl::context& context = context_.emplace(ssl::context::tls_server);
  // What was before TLS 1.2 is broken.
  context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 | ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1);
  // Else OpenSSL asks at the terminal.
  context.set_password_callback([](std::size_t, ssl::context::password_purpose) { return std::string(); });
  const auto check = [](const boost::system::error_code& code, const std::string& file, std::string_view expected) {
    if (code) fail(Errc::invalid_argument, printable(file, 4096), ": expected ", expected, ", found: ", printable(code.message()));
  };
  boost::system::error_code code;
  context.use_certificate_chain_file(certificate_file, code);
  check(code, certificate_file, "a certificate, or a chain of them, in PEM");
  context.use_private_key_file(key_file, ssl::context::pem, code);
  check(code, key_file, "the certificate's key in PEM, without a password");
}

#else

TlsContext::TlsContext(const std::string& key_file, const std::string& certificate_file) {
  if (!key_file.empty() || !certificate_file.empty())
    fail(Errc::unsupported, "TLS: this build was made without OpenSSL (Debian: libssl-dev), which it needs");
}

#endif

}  // namespace bantam::server
