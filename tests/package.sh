#!/bin/sh
# Installs the library as a distributor does, and uses it as somebody else does.
#
#   sh tests/package.sh FOLDER [MODULE]
#
# FOLDER is scratch and keeps the two builds, so that a second run is short. MODULE is a GPU module that works here (the
# emulated one): it is put into the prefixes, where it must be found. CC is the compiler of the library; the consumers
# are built with every one of gcc and clang that is there.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
[ $# -ge 1 ] || { echo "usage: package.sh FOLDER [MODULE]" >&2; exit 2; }
mkdir -p "$1"
folder=$(cd "$1" && pwd)
module=${2:-}
version=$(sed -n 's/^project(s4 VERSION \([0-9.]*\).*/\1/p' "$source/CMakeLists.txt")
unset DESTDIR S4_GPU_MODULE LD_LIBRARY_PATH PKG_CONFIG_PATH PKG_CONFIG_LIBDIR CMAKE_PREFIX_PATH CFLAGS CXXFLAGS LDFLAGS || true

fail() { echo "FAILED: $*" >&2; exit 1; }
say() { echo "== $*"; }

# files FOLDER: what is in it; folders alone do not count, but those that are only ours do.
files() { find "$1" ! -type d -o -type d -name s4 | sort; }
gone() { [ -z "$(files "$1")" ] || fail "uninstall left: $(files "$1")"; }

if ! command -v gcc >/dev/null && ! command -v clang >/dev/null; then fail "neither gcc nor clang"; fi
compilers() {
    case $1 in C) set -- gcc clang ;; CXX) set -- g++ clang++ ;; esac
    for compiler; do ! command -v "$compiler" >/dev/null || echo "$compiler"; done
}

# ---- the two builds ---------------------------------------------------------------------------------------------------
build() { # shared ON | static OFF
    say "build $1"
    cmake -S "$source" -B "$folder/$1" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS=-O0 -DBUILD_TESTING=OFF \
        -DS4_GPU=off -DBUILD_SHARED_LIBS="$2" -DCMAKE_INSTALL_PREFIX="$folder/prefix" -DCMAKE_INSTALL_LIBDIR=lib \
        -DCMAKE_C_FLAGS_RELEASE=-DNDEBUG >"$folder/$1.log" || fail "see $folder/$1.log"
    cmake --build "$folder/$1" >"$folder/$1.log" || { tail -20 "$folder/$1.log"; fail "build $1"; }
}
# A folder of another source tree, or of another compiler, is of no use.
key="$source ${CC:-cc}"
[ "$(cat "$folder/key" 2>/dev/null)" = "$key" ] || rm -rf "$folder/shared" "$folder/static"
echo "$key" >"$folder/key"
rm -rf "$folder/prefix" "$folder/moved" "$folder/stage" "$folder/programs"
mkdir -p "$folder/programs"
build static OFF
build shared ON

install_from() { cmake --install "$folder/$1" >"$folder/install.log"; }
uninstall_from() { cmake --build "$folder/$1" --target uninstall >"$folder/uninstall.log"; }

# ---- consumers --------------------------------------------------------------------------------------------------------
# run PROGRAM PREFIX: with the installed library, and with the GPU module that lies beside it or beside the program.
run() {
    [ "$(LD_LIBRARY_PATH="$2/lib" "$1" ${module:+gpu})" = "$version" ] || fail "$1"
}

# linked PROGRAM KIND: is the library inside the program, or outside?
linked() {
    needed=$(readelf -d "$1" | grep -c 'NEEDED.*libs4\.so' || true)
    case $2 in shared) [ "$needed" = 1 ] ;; static) [ "$needed" = 0 ] ;; esac || fail "$1 is not linked $2"
    if [ "$2" = static ] && [ -n "$module" ]; then cp "$module" "$(dirname "$1")/libs4_gpu.so"; fi
}

# by_pkg_config PREFIX KIND LANGUAGE COMPILER: where both libraries are, a linker takes the shared one.
by_pkg_config() {
    program=$folder/programs/pkg-config-$2-$4/consumer
    mkdir -p "$(dirname "$program")"
    static=""
    [ "$2" = shared ] || static=--static
    case $3 in C) text=consumer.c math=-lm ;; CXX) text=consumer.cpp math="" ;; esac
    flags=$(PKG_CONFIG_PATH="$1/lib/pkgconfig" pkg-config --cflags --libs $static s4)
    # shellcheck disable=SC2086
    "$4" -Wall -Wextra -Werror -O1 "$source/tests/install/$text" -o "$program" $flags $math
    linked "$program" "$2"
    run "$program" "$1"
}

# by_find_package PREFIX KIND LANGUAGE COMPILER [COMPONENT]
by_find_package() {
    build=$folder/programs/find_package-$2-$(basename "$4")${5:+-$5}
    if ! { cmake -S "$source/tests/install" -B "$build" -G Ninja -DLANGUAGE="$3" -DCMAKE_"$3"_COMPILER="$4" \
        -DCMAKE_PREFIX_PATH="$1" -DKIND="${5:-}" && cmake --build "$build"; } >"$build.log" 2>&1; then
        cat "$build.log"
        fail "find_package, $2, $4"
    fi
    linked "$build/consumer" "$2"
    run "$build/consumer" "$1"
}

# consumers PREFIX KIND: every way, with every compiler.
consumers() {
    for language in C CXX; do
        for compiler in $(compilers $language); do
            by_pkg_config "$1" "$2" $language "$compiler"
            by_find_package "$1" "$2" $language "$compiler"
            echo "$2, $compiler: pkg-config, find_package"
        done
    done
}

# The installed command finds the library without a path, and the module that lies with it.
the_command() {
    info=$("$1/bin/s4" info) || fail "$1/bin/s4"
    case $info in *"$version"*) ;; *) fail "$1/bin/s4 info: $info" ;; esac
    [ ! -e "$1/lib/libs4_gpu.so" ] || case $info in *"no GPU module"*) fail "$1/bin/s4: $info" ;; esac
}

# Nothing that is read at build time names a place.
relocatable() {
    ! grep -rlF "$folder" "$1/lib/pkgconfig" "$1/lib/cmake" || fail "installed files name the prefix"
    [ "$(PKG_CONFIG_PATH="$1/lib/pkgconfig" pkg-config --modversion s4)" = "$version" ] || fail "version of s4.pc"
}

add_module() { [ -z "$module" ] || cp "$module" "$1/lib/libs4_gpu.so"; }
remove_module() { rm -f "$1/lib/libs4_gpu.so"; }

# ---- static, into a prefix ----------------------------------------------------------------------------------------------
say "static"
install_from static
add_module "$folder/prefix"
relocatable "$folder/prefix"
consumers "$folder/prefix" static
the_command "$folder/prefix"
remove_module "$folder/prefix"
uninstall_from static
gone "$folder/prefix"

# ---- shared, staged, then put where it was not configured for -----------------------------------------------------------
say "shared, by DESTDIR"
DESTDIR=$folder/stage install_from shared
[ ! -e "$folder/prefix/include" ] || [ -z "$(files "$folder/prefix")" ] || fail "DESTDIR was not respected"
staged=$folder/stage$folder/prefix
soname=$(readelf -d "$staged/lib/libs4.so" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
case $version in 0.*) expected=libs4.so.${version%.*} ;; *) expected=libs4.so.${version%%.*} ;; esac
[ "$soname" = "$expected" ] || fail "SONAME $soname, not $expected"
cp -a "$staged" "$folder/moved"
DESTDIR=$folder/stage uninstall_from shared
gone "$folder/stage"

say "shared, moved"
add_module "$folder/moved"
relocatable "$folder/moved"
consumers "$folder/moved" shared
the_command "$folder/moved"
mv "$folder/moved" "$folder/moved again"
for program in "$folder"/programs/*-shared-*/consumer; do run "$program" "$folder/moved again"; done
the_command "$folder/moved again"
rm -rf "$folder/moved again"

# ---- both in one prefix -------------------------------------------------------------------------------------------------
say "both"
install_from shared
install_from static
add_module "$folder/prefix"
by_find_package "$folder/prefix" shared C "${CC:-cc}" shared
by_find_package "$folder/prefix" static C "${CC:-cc}" static
by_find_package "$folder/prefix" shared C "${CC:-cc}" ""
remove_module "$folder/prefix"
uninstall_from shared
uninstall_from static
gone "$folder/prefix"

# ---- components ---------------------------------------------------------------------------------------------------------
say "components"
for component in runtime development command; do
    cmake --install "$folder/shared" --component $component --prefix "$folder/moved" >"$folder/install.log"
done
the_command "$folder/moved"
uninstall_from shared
gone "$folder/moved"
echo "passed"
