#include "policy/mount_aliases.h"

#include <algorithm>

namespace srun::policy {
namespace {

// Blanks, backslashes and line ends are written as \ooo.
std::string unescaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

bool is_below(std::string_view path, std::string_view top) {
  return top == "/" || path == top || (path.starts_with(top) && path.size() > top.size() && path[top.size()] == '/');
}

// `path` with its beginning `from` put at `to`.
std::string moved(std::string_view path, std::string_view from, std::string_view to) {
  std::string_view rest = path.substr(from == "/" ? 0 : from.size());
  std::string out(to == "/" ? "" : to);
  if (rest != "/") out += rest;
  return out.empty() ? "/" : out;
}

struct Mount {
  std::string device;
  std::string root;  // inside its file system
  std::string point;
};

std::vector<Mount> parse(std::string_view mountinfo) {
  std::vector<Mount> mounts;
  while (!mountinfo.empty()) {
    std::string_view line = mountinfo.substr(0, mountinfo.find('\n'));
    mountinfo.remove_prefix(std::min(mountinfo.size(), line.size() + 1));
    std::string_view fields[5];
    for (std::string_view& field : fields) {
      field = line.substr(0, line.find(' '));
      line.remove_prefix(std::min(line.size(), field.size() + 1));
    }
    if (fields[4].empty() || fields[3].front() != '/') continue;  // "net:[…]" and the like show no files
    mounts.push_back({std::string(fields[2]), unescaped(fields[3]), unescaped(fields[4])});
  }
  return mounts;
}

}  // namespace

std::vector<std::string> mount_aliases(std::string_view mountinfo, const std::string& path) {
  const std::vector<Mount> mounts = parse(mountinfo);
  const Mount* own = nullptr;
  for (const Mount& mount : mounts)  // of several at one place the last one is on top
    if (is_below(path, mount.point) && (own == nullptr || mount.point.size() >= own->point.size())) own = &mount;
  std::vector<std::string> found;
  if (own == nullptr) return found;
  const std::string inside = moved(path, own->point, own->root);
  for (const Mount& mount : mounts) {
    if (&mount == own || mount.device != own->device) continue;
    std::string alias;
    if (is_below(inside, mount.root))
      alias = moved(inside, mount.root, mount.point);
    else if (is_below(mount.root, inside))
      alias = mount.point;
    else
      continue;
    if (!is_below(alias, path) && std::find(found.begin(), found.end(), alias) == found.end())
      found.push_back(std::move(alias));
  }
  return found;
}

}  // namespace srun::policy
