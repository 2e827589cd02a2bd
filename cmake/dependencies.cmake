# All from Debian 12 packages; tools/quickstart installs them. See README, "Dependencies".
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)            # libfmt-dev, comes with libspdlog-dev
find_package(spdlog REQUIRED)         # libspdlog-dev: src/base/log.cc only
find_package(nlohmann_json REQUIRED)  # nlohmann-json3-dev: src/policy/json_document.cc only
find_package(CLI11 REQUIRED)          # libcli11-dev: src/cli only
find_package(tl-expected REQUIRED)    # libexpected-dev
find_package(doctest REQUIRED)        # doctest-dev: tests
find_package(Boost REQUIRED)          # libboost-dev: Asio (header only), src/supervisor/control_plane.cc only
find_library(LIBCAP_LIBRARY cap REQUIRED)          # libcap-dev: src/sandbox
find_library(LIBSECCOMP_LIBRARY seccomp)           # libseccomp-dev: oracle in tests, peer in benchmarks; never in the product
find_library(LIBPCAP_LIBRARY pcap)                 # libpcap-dev: the same
