// Numbers, quoting and names: what every line is made of.
#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "trace/decoder.h"
#include "trace/filter.h"
#include "trace/put.h"
#include "trace/xlat.h"

using namespace srun::trace;

namespace {

template <typename Put>
std::string text(Put put) {
  std::string out;
  put(out);
  return out;
}
std::string quoted(std::string_view bytes, bool cut = false, HexStrings hex = HexStrings::kNever) {
  return text([&](std::string& out) { put_quoted(out, bytes, cut, hex); });
}
// By C's rules (I8).
std::string unquoted(std::string_view quote) {
  std::string out;
  for (size_t i = 1; i + 1 < quote.size(); ++i) {
    if (quote[i] != '\\') {
      out += quote[i];
      continue;
    }
    const char next = quote[++i];
    if (next == 'x') {
      out += static_cast<char>(std::stoi(std::string(quote.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else if (next >= '0' && next <= '7') {
      size_t digits = 1;
      while (digits < 3 && quote[i + digits] >= '0' && quote[i + digits] <= '7') ++digits;
      out += static_cast<char>(std::stoi(std::string(quote.substr(i, digits)), nullptr, 8));
      i += digits - 1;
    } else {
      out += next == 'n' ? '\n' : next == 't' ? '\t' : next == 'r' ? '\r' : next == 'f' ? '\f' : next == 'v' ? '\v' : next;
    }
  }
  return out;
}

}  // namespace

TEST_CASE("every name of every table has a value") {
  constexpr std::string_view kNames[] = {
#define SRUN_XLAT(table, unknown, names) names,
#include "trace/xlat.def"
#undef SRUN_XLAT
  };
  for (size_t i = 0; i < std::size(kNames); ++i) {
    size_t expected = 1;
    for (const char c : kNames[i]) expected += c == '|';
    CHECK_MESSAGE(xlat(static_cast<XlatId>(i)).size() == expected, kNames[i]);
  }
}

TEST_CASE("numbers") {
  const auto mode = [](uint64_t value) { return text([&](std::string& out) { put_mode(out, value); }); };
  CHECK(mode(0) == "000");
  CHECK(mode(022) == "022");
  CHECK(mode(07) == "007");
  CHECK(mode(0644) == "0644");
  CHECK(mode(04755) == "04755");
  CHECK(text([](std::string& out) { put_hex(out, 0); }) == "0");
  CHECK(text([](std::string& out) { put_hex(out, UINT64_MAX); }) == "0xffffffffffffffff");
  CHECK(text([](std::string& out) { put_address(out, 0); }) == "NULL");
}

TEST_CASE("a quoted string is the bytes again by C's rules, whatever they are") {
  CHECK(quoted("a\"b\\\n\1\0019\1778") == "\"a\\\"b\\\\\\n\\1\\19\\1778\"");
  CHECK(quoted(std::string_view("\0" "7", 2)) == "\"\\0007\"");
  CHECK(quoted("abc", true) == "\"abc\"...");
  CHECK(quoted("a\xff", false, HexStrings::kNonAscii) == "\"\\x61\\xff\"");
  uint32_t seed = 1;
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (int i = 0; i < 24; ++i) {
      seed = seed * 1664525 + 1013904223;
      bytes += (seed >> 31) != 0 ? static_cast<char>(seed >> 16) : static_cast<char>('0' + (seed >> 16) % 8);
    }
    for (const HexStrings hex : {HexStrings::kNever, HexStrings::kNonAscii, HexStrings::kAlways}) {
      const std::string quote = quoted(bytes, false, hex);
      CHECK(unquoted(quote) == bytes);
      for (const char c : quote) CHECK((c >= 0x20 && c < 0x7f));
    }
  }
}

TEST_CASE("flags") {
  const auto flags = [](XlatId table, uint64_t value, XlatStyle style = XlatStyle::kAbbrev) {
    return text([&](std::string& out) { put_flags(out, table, value, style); });
  };
  CHECK(flags(XlatId::kMmapProt, 0) == "PROT_NONE");
  CHECK(flags(XlatId::kMmapProt, 5) == "PROT_READ|PROT_EXEC");
  CHECK(flags(XlatId::kMmapProt, 0x11) == "PROT_READ|0x10");
  CHECK(flags(XlatId::kMmapProt, 0x10) == "0x10 /* PROT_??? */");
  CHECK(flags(XlatId::kStatxMasks, 0x1fff) == "STATX_ALL|STATX_MNT_ID");
  CHECK(flags(XlatId::kMmapProt, 3, XlatStyle::kRaw) == "0x3");
  CHECK(flags(XlatId::kMmapProt, 3, XlatStyle::kVerbose) == "0x3 /* PROT_READ|PROT_WRITE */");
}

TEST_CASE("signal sets and wait statuses") {
  CHECK(text([](std::string& out) { put_signal_set(out, 0); }) == "[]");
  CHECK(text([](std::string& out) { put_signal_set(out, UINT64_MAX); }) == "~[]");
  CHECK(text([](std::string& out) { put_signal_set(out, 1u << 1 | 1u << 16); }) == "[INT CHLD]");
  CHECK(text([](std::string& out) { put_wait_status(out, 3 << 8); }) == "{WIFEXITED(s) && WEXITSTATUS(s) == 3}");
  CHECK(text([](std::string& out) { put_wait_status(out, 9); }) == "{WIFSIGNALED(s) && WTERMSIG(s) == SIGKILL}");
  CHECK(text([](std::string& out) { put_wait_status(out, 0x8b); }) == "{WIFSIGNALED(s) && WTERMSIG(s) == SIGSEGV && WCOREDUMP(s)}");
}

TEST_CASE("sets of calls") {
  const auto has = [](std::string_view expression, std::string_view name) { return CallSet::parse(expression)->has(srun::kernel::find_syscall(name)); };
  CHECK(has("open,close", "close"));
  CHECK(!has("open,close", "read"));
  CHECK(has("!open,close", "read"));
  CHECK(!has("!open,close", "open"));
  CHECK(has("%file", "openat"));
  CHECK(has("file", "openat"));
  CHECK(has("/^(read|write)v?$", "readv"));
  CHECK(has("?nosuch,read", "read"));
  CHECK(CallSet::all().is_all());
  CHECK(CallSet::parse("!none")->is_all());
  CHECK(!CallSet::parse("!all")->has(nullptr));
  for (const std::string_view wrong : {"nosuch", "", "read,", "%nosuch", "/(", "/nosuch", "99999"}) CHECK_MESSAGE(!CallSet::parse(wrong).has_value(), wrong);
}

TEST_CASE("a call of a task that is gone, with pointers that lead nowhere, is printed all the same") {
  Decoder decoder({});
  for (const srun::kernel::Syscall& row : srun::kernel::syscalls()) {
    for (const uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{0x7fffffff}, UINT64_MAX}) {
      Call call;
      call.tid = 0x7ffffffe;
      call.row = &row;
      call.args.fill(value);
      for (const int64_t result : {int64_t{0}, int64_t{-22}, int64_t{0x7fffffff}}) {
        Line line;
        line.clear();
        decoder.entry(call, line);
        call.result = result;
        call.failed = result < 0;
        decoder.exit(call, line);
        CHECK_MESSAGE(line.text.size() < 4096, row.name);
        CHECK_MESSAGE(!line.more_follows, row.name);
      }
    }
  }
}
