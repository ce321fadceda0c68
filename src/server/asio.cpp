// What Asio and Beast compile once.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
