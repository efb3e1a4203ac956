#!/bin/sh
# Installs the Debian packages that building and testing need, and those named, where they are missing. Asks nothing.
# The CUDA toolkit is used where it is, and not installed.
set -eu
packages="gcc g++ cmake ninja-build pkg-config libfftw3-dev liblapacke-dev libopenblas-dev libcjson-dev libcriterion-dev $*"
missing=""
for package in $packages; do
    case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
        "install ok installed") ;;
        *) missing="$missing $package" ;;
    esac
done
[ -n "$missing" ] || exit 0
echo "installing:$missing"
root=""
[ "$(id -u)" = 0 ] || root="sudo"
$root apt-get update -qq
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive $root apt-get install -y -qq --no-install-recommends $missing >/dev/null
