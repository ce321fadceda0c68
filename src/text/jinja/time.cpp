// strftime without a locale: English names, whatever the process has set.
#include <ctime>

#include "text/jinja/functions.hpp"
#include "text/jinja/text_methods.hpp"

namespace bantam::inline v0::jinja {

namespace {

constexpr std::string_view days[] = {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"};
constexpr std::string_view months[] = {"January", "February", "March",     "April",   "May",      "June",
                                       "July",    "August",   "September", "October", "November", "December"};

std::string digits(int value, std::size_t width, char pad = '0') {
  std::string text = std::to_string(value);
  if (text.size() < width && pad) text.insert(0, width - text.size(), pad);
  return text;
}

/// The week of the ISO 8601 year and that year.
std::pair<int, int> iso_week(const std::tm& t) {
  int year = t.tm_year + 1900;
  const int weekday = (t.tm_wday + 6) % 7;
  int week = (t.tm_yday - weekday + 10) / 7;
  const auto weeks_of = [&](int y) {
    const auto dec31 = [](int z) { return (z + z / 4 - z / 100 + z / 400) % 7; };
    return dec31(y) == 4 || dec31(y - 1) == 3 ? 53 : 52;
  };
  if (week < 1) {
    --year;
    week = weeks_of(year);
  } else if (week > weeks_of(year)) {
    ++year;
    week = 1;
  }
  return {week, year};
}

std::tm civil(Run& run) {
  std::tm out{};
  if (run.now()) {
    const auto seconds = static_cast<std::time_t>(run.now()->time_since_epoch().count());
    if (!gmtime_r(&seconds, &out)) run.error("expected a time with a year of int, found ", static_cast<std::int64_t>(seconds));
    return out;
  }
  const std::time_t seconds = std::time(nullptr);
  if (!localtime_r(&seconds, &out)) run.error("found no local time");
  return out;
}

/// The text of one letter; empty for what a time without a zone does not have.
std::string conversion(Run& run, const std::tm& t, char letter, char flag) {
  const char pad = flag == '-' ? '\0' : flag == '_' ? ' ' : '0';
  const int hour = t.tm_hour % 12 == 0 ? 12 : t.tm_hour % 12;
  const int year = t.tm_year + 1900;
  switch (letter) {
    case 'Y': return digits(year, 1);
    case 'y': return digits(year % 100, 2, pad);
    case 'C': return digits(year / 100, 2, pad);
    case 'm': return digits(t.tm_mon + 1, 2, pad);
    case 'd': return digits(t.tm_mday, 2, pad);
    case 'e': return digits(t.tm_mday, 2, flag == '-' ? '\0' : flag == '0' ? '0' : ' ');
    case 'H': return digits(t.tm_hour, 2, pad);
    case 'k': return digits(t.tm_hour, 2, flag == '-' ? '\0' : ' ');
    case 'I': return digits(hour, 2, pad);
    case 'l': return digits(hour, 2, flag == '-' ? '\0' : ' ');
    case 'M': return digits(t.tm_min, 2, pad);
    case 'S': return digits(t.tm_sec, 2, pad);
    case 'f': return "000000";
    case 'j': return digits(t.tm_yday + 1, 3, pad);
    case 'w': return digits(t.tm_wday, 1);
    case 'u': return digits(t.tm_wday == 0 ? 7 : t.tm_wday, 1);
    case 'U': return digits((t.tm_yday + 7 - t.tm_wday) / 7, 2, pad);
    case 'W': return digits((t.tm_yday + 7 - (t.tm_wday + 6) % 7) / 7, 2, pad);
    case 'V': return digits(iso_week(t).first, 2, pad);
    case 'G': return digits(iso_week(t).second, 1);
    case 'a': return std::string(days[t.tm_wday].substr(0, 3));
    case 'A': return std::string(days[t.tm_wday]);
    case 'b':
    case 'h': return std::string(months[t.tm_mon].substr(0, 3));
    case 'B': return std::string(months[t.tm_mon]);
    case 'p': return t.tm_hour < 12 ? "AM" : "PM";
    case 'P': return t.tm_hour < 12 ? "am" : "pm";
    case 'z':
    case 'Z': return {};
    case 'n': return "\n";
    case 't': return "\t";
    case '%': return "%";
    default: break;
  }
  // Letters that stand for others.
  const std::string_view longer = letter == 'c'   ? "%a %b %e %H:%M:%S %Y"
                                  : letter == 'x' || letter == 'D' ? "%m/%d/%y"
                                  : letter == 'X' || letter == 'T' ? "%H:%M:%S"
                                  : letter == 'F' ? "%Y-%m-%d"
                                  : letter == 'R' ? "%H:%M"
                                  : letter == 'r' ? "%I:%M:%S %p"
                                                  : "";
  if (longer.empty()) run.error("expected a conversion of a time, found '%", printable(std::string_view(&letter, 1)), "'");
  std::string out;
  for (std::size_t i = 0; i < longer.size(); ++i) out += longer[i] == '%' ? conversion(run, t, longer[++i], '\0') : std::string(1, longer[i]);
  return out;
}

}  // namespace

std::string format_time(Run& run, std::string_view format) {
  const std::tm time = civil(run);
  Builder out(run);
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out.add(format[i]);
      continue;
    }
    run.step();
    char flag = '\0';
    if (std::string_view("-_0").find(format[i + 1]) != std::string_view::npos && i + 2 < format.size()) flag = format[++i];
    out.add(conversion(run, time, format[++i], flag));
  }
  return out.take();
}

}  // namespace bantam::inline v0::jinja
