#pragma once
// Shared by the files of the decoder.
#include <cstdint>
#include <string>
#include <string_view>

namespace srun::trace {

// Of an iovec: its data does not exist, only the addresses are shown.
inline constexpr uint64_t kNothing = UINT64_MAX - 1;

struct Time64 {
  int64_t seconds, part;
};
// {tv_sec=1, PART=2}
void put_time(std::string& out, const Time64& time, std::string_view part);
// " /* 1970-01-01T00:00:01.000000002+0000 */"; nothing for the epoch itself. `digits` of the part.
void put_date(std::string& out, const Time64& time, int digits = 9);

}  // namespace srun::trace
