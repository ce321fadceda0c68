// What Asio and Beast compile once.
#include <boost/asio/impl/src.hpp>
#ifdef BANTAM_HAS_TLS
#include <boost/asio/ssl/impl/src.hpp>
#endif
#include <boost/beast/src.hpp>
