// Two clients upload to one project, a third to another: a lock per project keeps version numbers unique, and nobody
// waits for a project that is not theirs.
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include <keyway/key_locks.h>

namespace {

// What the lock protects: the versions of each project. Two threads never touch the same project's.
struct Project {
  std::vector<int> versions;
  int active = 0;
};

void create_version(Project& project) {
  project.versions.push_back(static_cast<int>(project.versions.size()) + 1);
}

}  // namespace

int main() {
  std::map<std::string, Project, std::less<>> projects{{"blog", {}}, {"shop", {}}};
  keyway::KeyLocks locks;

  const auto activate = [&](const std::string& name, int version) {
    locks.with_lock(name, [&] { projects.at(name).active = version; });
  };
  const auto upload = [&](const std::string& name) {
    locks.with_lock(name, [&] {
      Project& project = projects.at(name);
      create_version(project);
      activate(name, project.versions.back());  // locks it again: re-entrant
    });
  };

  std::thread first([&] { upload("blog"); });
  std::thread second([&] { upload("blog"); });
  std::thread third([&] { upload("shop"); });
  first.join();
  second.join();
  third.join();

  for (const auto& [name, project] : projects) {
    std::printf("%s: %zu versions, %d is active\n", name.c_str(), project.versions.size(),
                project.active);
  }
  const bool right = projects["blog"].versions == std::vector{1, 2} &&
                     projects["blog"].active == 2 && projects["shop"].versions == std::vector{1} &&
                     locks.active_lock_count() == 0;
  return right ? 0 : 1;
}
